	ldp q9, q10, [x5, #-256]
	subs x19, x19, #1
	ldp q8, q5, [x16, #-64]
	smull v11.8h, v8.8b, v9.8b
	smull v12.8h, v5.8b, v9.8b
	smull v13.8h, v8.8b, v10.8b
	smull v14.8h, v5.8b, v10.8b
	smlsl2 v11.8h, v8.16b, v9.16b
	smlsl2 v12.8h, v5.16b, v9.16b
	ldur q9, [x5, #-224]
	smlsl2 v13.8h, v8.16b, v10.16b
	smlsl2 v14.8h, v5.16b, v10.16b
	smull v10.8h, v8.8b, v9.8b
	sadalp v19.4s, v11.8h
	sadalp v18.4s, v12.8h
	sadalp v7.4s, v13.8h
	ldp q11, q13, [x5, #-208]
	sadalp v6.4s, v14.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v10.8h, v8.16b, v9.16b
	smull v14.8h, v8.8b, v11.8b
	smull v15.8h, v5.8b, v11.8b
	smull v0.8h, v8.8b, v13.8b
	smull v1.8h, v5.8b, v13.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v31.4s, v10.8h
	smlsl2 v14.8h, v8.16b, v11.16b
	smlsl2 v15.8h, v5.16b, v11.16b
	smlsl2 v0.8h, v8.16b, v13.16b
	smlsl2 v1.8h, v5.16b, v13.16b
	sadalp v21.4s, v12.8h
	sadalp v20.4s, v14.8h
	sadalp v24.4s, v15.8h
	sadalp v26.4s, v0.8h
	sadalp v22.4s, v1.8h
	ldp q0, q1, [x5, #-176]
	ldur q10, [x5, #-144]
	smull v9.8h, v8.8b, v0.8b
	smull v11.8h, v5.8b, v0.8b
	smull v12.8h, v8.8b, v1.8b
	smull v13.8h, v5.8b, v1.8b
	smull v14.8h, v8.8b, v10.8b
	smull v15.8h, v5.8b, v10.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v11.8h, v5.16b, v0.16b
	smlsl2 v12.8h, v8.16b, v1.16b
	smlsl2 v13.8h, v5.16b, v1.16b
	smlsl2 v14.8h, v8.16b, v10.16b
	smlsl2 v15.8h, v5.16b, v10.16b
	sadalp v30.4s, v9.8h
	sadalp v27.4s, v11.8h
	sadalp v28.4s, v12.8h
	sadalp v23.4s, v13.8h
	sadalp v29.4s, v14.8h
	sadalp v25.4s, v15.8h
	ldp q0, q1, [x5, #-128]
	ldp q8, q5, [x16, #-32]
	smull v9.8h, v8.8b, v0.8b
	smull v10.8h, v5.8b, v0.8b
	smull v11.8h, v8.8b, v1.8b
	smull v12.8h, v5.8b, v1.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v10.8h, v5.16b, v0.16b
	ldur q0, [x5, #-96]
	smlsl2 v11.8h, v8.16b, v1.16b
	smlsl2 v12.8h, v5.16b, v1.16b
	smull v1.8h, v8.8b, v0.8b
	sadalp v19.4s, v9.8h
	sadalp v18.4s, v10.8h
	sadalp v7.4s, v11.8h
	ldp q9, q11, [x5, #-80]
	sadalp v6.4s, v12.8h
	smull v10.8h, v5.8b, v0.8b
	smlsl2 v1.8h, v8.16b, v0.16b
	smull v12.8h, v8.8b, v9.8b
	smull v13.8h, v5.8b, v9.8b
	smull v14.8h, v8.8b, v11.8b
	smull v15.8h, v5.8b, v11.8b
	smlsl2 v10.8h, v5.16b, v0.16b
	sadalp v31.4s, v1.8h
	smlsl2 v12.8h, v8.16b, v9.16b
	smlsl2 v13.8h, v5.16b, v9.16b
	smlsl2 v14.8h, v8.16b, v11.16b
	smlsl2 v15.8h, v5.16b, v11.16b
	sadalp v21.4s, v10.8h
	sadalp v20.4s, v12.8h
	sadalp v24.4s, v13.8h
	sadalp v26.4s, v14.8h
	sadalp v22.4s, v15.8h
	ldp q0, q1, [x5, #-48]
	ldur q10, [x5, #-16]
	smull v9.8h, v8.8b, v0.8b
	smull v11.8h, v5.8b, v0.8b
	smull v12.8h, v8.8b, v1.8b
	smull v13.8h, v5.8b, v1.8b
	smull v14.8h, v8.8b, v10.8b
	smull v15.8h, v5.8b, v10.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v11.8h, v5.16b, v0.16b
	smlsl2 v12.8h, v8.16b, v1.16b
	smlsl2 v13.8h, v5.16b, v1.16b
	smlsl2 v14.8h, v8.16b, v10.16b
	smlsl2 v15.8h, v5.16b, v10.16b
	sadalp v30.4s, v9.8h
	sadalp v27.4s, v11.8h
	sadalp v28.4s, v12.8h
	sadalp v23.4s, v13.8h
	sadalp v29.4s, v14.8h
	sadalp v25.4s, v15.8h
	ldp q0, q1, [x5]
	ldp q8, q5, [x16]
	smull v9.8h, v8.8b, v0.8b
	smull v10.8h, v5.8b, v0.8b
	smull v11.8h, v8.8b, v1.8b
	smull v12.8h, v5.8b, v1.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v10.8h, v5.16b, v0.16b
	ldr q0, [x5, #32]
	smlsl2 v11.8h, v8.16b, v1.16b
	smlsl2 v12.8h, v5.16b, v1.16b
	smull v1.8h, v8.8b, v0.8b
	sadalp v19.4s, v9.8h
	sadalp v18.4s, v10.8h
	sadalp v7.4s, v11.8h
	ldp q9, q11, [x5, #48]
	sadalp v6.4s, v12.8h
	smull v10.8h, v5.8b, v0.8b
	smlsl2 v1.8h, v8.16b, v0.16b
	smull v12.8h, v8.8b, v9.8b
	smull v13.8h, v5.8b, v9.8b
	smull v14.8h, v8.8b, v11.8b
	smull v15.8h, v5.8b, v11.8b
	smlsl2 v10.8h, v5.16b, v0.16b
	sadalp v31.4s, v1.8h
	smlsl2 v12.8h, v8.16b, v9.16b
	smlsl2 v13.8h, v5.16b, v9.16b
	smlsl2 v14.8h, v8.16b, v11.16b
	smlsl2 v15.8h, v5.16b, v11.16b
	sadalp v21.4s, v10.8h
	sadalp v20.4s, v12.8h
	sadalp v24.4s, v13.8h
	sadalp v26.4s, v14.8h
	sadalp v22.4s, v15.8h
	ldp q0, q1, [x5, #80]
	ldr q10, [x5, #112]
	smull v9.8h, v8.8b, v0.8b
	smull v11.8h, v5.8b, v0.8b
	smull v12.8h, v8.8b, v1.8b
	smull v13.8h, v5.8b, v1.8b
	smull v14.8h, v8.8b, v10.8b
	smull v15.8h, v5.8b, v10.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v11.8h, v5.16b, v0.16b
	smlsl2 v12.8h, v8.16b, v1.16b
	smlsl2 v13.8h, v5.16b, v1.16b
	smlsl2 v14.8h, v8.16b, v10.16b
	smlsl2 v15.8h, v5.16b, v10.16b
	sadalp v30.4s, v9.8h
	sadalp v27.4s, v11.8h
	sadalp v28.4s, v12.8h
	sadalp v23.4s, v13.8h
	sadalp v29.4s, v14.8h
	sadalp v25.4s, v15.8h
	ldp q0, q1, [x5, #128]
	ldp q8, q5, [x16, #32]
	add x16, x16, #128
	smull v9.8h, v8.8b, v0.8b
	smull v10.8h, v5.8b, v0.8b
	smull v11.8h, v8.8b, v1.8b
	smull v12.8h, v5.8b, v1.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v10.8h, v5.16b, v0.16b
	ldr q0, [x5, #160]
	smlsl2 v11.8h, v8.16b, v1.16b
	smlsl2 v12.8h, v5.16b, v1.16b
	smull v1.8h, v8.8b, v0.8b
	sadalp v19.4s, v9.8h
	sadalp v18.4s, v10.8h
	smull v10.8h, v5.8b, v0.8b
	sadalp v7.4s, v11.8h
	ldp q9, q11, [x5, #176]
	sadalp v6.4s, v12.8h
	smlsl2 v1.8h, v8.16b, v0.16b
	smull v12.8h, v8.8b, v9.8b
	smull v13.8h, v5.8b, v9.8b
	smull v14.8h, v8.8b, v11.8b
	smull v15.8h, v5.8b, v11.8b
	smlsl2 v10.8h, v5.16b, v0.16b
	sadalp v31.4s, v1.8h
	smlsl2 v12.8h, v8.16b, v9.16b
	smlsl2 v13.8h, v5.16b, v9.16b
	smlsl2 v14.8h, v8.16b, v11.16b
	smlsl2 v15.8h, v5.16b, v11.16b
	sadalp v21.4s, v10.8h
	ldp q0, q1, [x5, #208]
	sadalp v20.4s, v12.8h
	sadalp v24.4s, v13.8h
	sadalp v26.4s, v14.8h
	sadalp v22.4s, v15.8h
	smull v9.8h, v8.8b, v0.8b
	ldr q10, [x5, #240]
	smull v11.8h, v5.8b, v0.8b
	smull v12.8h, v8.8b, v1.8b
	add x5, x5, #512
	smull v13.8h, v5.8b, v1.8b
	smull v14.8h, v8.8b, v10.8b
	smull v15.8h, v5.8b, v10.8b
	smlsl2 v9.8h, v8.16b, v0.16b
	smlsl2 v11.8h, v5.16b, v0.16b
	smlsl2 v12.8h, v8.16b, v1.16b
	smlsl2 v13.8h, v5.16b, v1.16b
	smlsl2 v14.8h, v8.16b, v10.16b
	smlsl2 v15.8h, v5.16b, v10.16b
	sadalp v30.4s, v9.8h
	mov v8.16b, v31.16b
	mov v5.16b, v6.16b
	mov v9.16b, v7.16b
	sadalp v27.4s, v11.8h
	sadalp v28.4s, v12.8h
	sadalp v23.4s, v13.8h
	sadalp v29.4s, v14.8h
	sadalp v25.4s, v15.8h
	b.ne .L0
