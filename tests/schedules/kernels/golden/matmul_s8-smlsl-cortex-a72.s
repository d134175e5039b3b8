	ldp q6, q5, [x12, #-64]
	ldp q9, q10, [x6, #-256]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	sadalp v19.4s, v12.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v18.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v31.4s, v9.8h
	ldp q11, q9, [x6, #-224]
	smull v12.8h, v5.8b, v10.8b
	smlsl2 v12.8h, v5.16b, v10.16b
	sadalp v7.4s, v12.8h
	smull v12.8h, v6.8b, v11.8b
	smlsl2 v12.8h, v6.16b, v11.16b
	sadalp v8.4s, v12.8h
	smull v12.8h, v5.8b, v11.8b
	smlsl2 v12.8h, v5.16b, v11.16b
	sadalp v22.4s, v12.8h
	ldp q10, q11, [x6, #-192]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	sadalp v20.4s, v12.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v23.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v28.4s, v9.8h
	smull v12.8h, v5.8b, v10.8b
	smlsl2 v12.8h, v5.16b, v10.16b
	sadalp v24.4s, v12.8h
	ldp q9, q10, [x6, #-160]
	smull v12.8h, v6.8b, v11.8b
	smlsl2 v12.8h, v6.16b, v11.16b
	sadalp v29.4s, v12.8h
	smull v12.8h, v5.8b, v11.8b
	smlsl2 v12.8h, v5.16b, v11.16b
	sadalp v25.4s, v12.8h
	smull v11.8h, v6.8b, v9.8b
	smlsl2 v11.8h, v6.16b, v9.16b
	smull v12.8h, v5.8b, v9.8b
	sadalp v26.4s, v11.8h
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v21.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v27.4s, v9.8h
	smull v6.8h, v5.8b, v10.8b
	smlsl2 v6.8h, v5.16b, v10.16b
	sadalp v30.4s, v6.8h
	ldp q6, q5, [x12, #-32]
	ldp q9, q10, [x6, #-128]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	smull v13.8h, v5.8b, v9.8b
	sadalp v19.4s, v12.8h
	smlsl2 v13.8h, v5.16b, v9.16b
	sadalp v18.4s, v13.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v31.4s, v9.8h
	smull v9.8h, v5.8b, v10.8b
	ldp q11, q12, [x6, #-96]
	smlsl2 v9.8h, v5.16b, v10.16b
	sadalp v7.4s, v9.8h
	smull v10.8h, v6.8b, v11.8b
	smlsl2 v10.8h, v6.16b, v11.16b
	smull v13.8h, v5.8b, v11.8b
	sadalp v8.4s, v10.8h
	smlsl2 v13.8h, v5.16b, v11.16b
	sadalp v22.4s, v13.8h
	ldp q9, q10, [x6, #-64]
	smull v11.8h, v6.8b, v12.8b
	smlsl2 v11.8h, v6.16b, v12.16b
	smull v13.8h, v5.8b, v12.8b
	sadalp v20.4s, v11.8h
	smlsl2 v13.8h, v5.16b, v12.16b
	sadalp v23.4s, v13.8h
	smull v11.8h, v6.8b, v9.8b
	smlsl2 v11.8h, v6.16b, v9.16b
	sadalp v28.4s, v11.8h
	smull v11.8h, v5.8b, v9.8b
	smlsl2 v11.8h, v5.16b, v9.16b
	sadalp v24.4s, v11.8h
	ldp q12, q9, [x6, #-32]
	smull v11.8h, v6.8b, v10.8b
	smlsl2 v11.8h, v6.16b, v10.16b
	smull v13.8h, v5.8b, v10.8b
	sadalp v29.4s, v11.8h
	smlsl2 v13.8h, v5.16b, v10.16b
	sadalp v25.4s, v13.8h
	smull v10.8h, v6.8b, v12.8b
	smlsl2 v10.8h, v6.16b, v12.16b
	smull v11.8h, v5.8b, v12.8b
	smlsl2 v11.8h, v5.16b, v12.16b
	sadalp v26.4s, v10.8h
	sadalp v21.4s, v11.8h
	smull v10.8h, v6.8b, v9.8b
	smlsl2 v10.8h, v6.16b, v9.16b
	sadalp v27.4s, v10.8h
	smull v6.8h, v5.8b, v9.8b
	smlsl2 v6.8h, v5.16b, v9.16b
	sadalp v30.4s, v6.8h
	ldp q6, q5, [x12]
	ldp q9, q10, [x6]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	sadalp v19.4s, v12.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v18.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	ldp q11, q12, [x6, #32]
	sadalp v31.4s, v9.8h
	smull v9.8h, v5.8b, v10.8b
	smlsl2 v9.8h, v5.16b, v10.16b
	sadalp v7.4s, v9.8h
	smull v10.8h, v6.8b, v11.8b
	smlsl2 v10.8h, v6.16b, v11.16b
	sadalp v8.4s, v10.8h
	smull v10.8h, v5.8b, v11.8b
	smlsl2 v10.8h, v5.16b, v11.16b
	sadalp v22.4s, v10.8h
	ldp q9, q10, [x6, #64]
	smull v11.8h, v6.8b, v12.8b
	smlsl2 v11.8h, v6.16b, v12.16b
	sadalp v20.4s, v11.8h
	smull v11.8h, v5.8b, v12.8b
	smlsl2 v11.8h, v5.16b, v12.16b
	sadalp v23.4s, v11.8h
	smull v11.8h, v6.8b, v9.8b
	smlsl2 v11.8h, v6.16b, v9.16b
	sadalp v28.4s, v11.8h
	smull v11.8h, v5.8b, v9.8b
	smlsl2 v11.8h, v5.16b, v9.16b
	sadalp v24.4s, v11.8h
	ldp q12, q9, [x6, #96]
	smull v11.8h, v6.8b, v10.8b
	smlsl2 v11.8h, v6.16b, v10.16b
	sadalp v29.4s, v11.8h
	smull v11.8h, v5.8b, v10.8b
	smlsl2 v11.8h, v5.16b, v10.16b
	sadalp v25.4s, v11.8h
	smull v10.8h, v6.8b, v12.8b
	smlsl2 v10.8h, v6.16b, v12.16b
	sadalp v26.4s, v10.8h
	smull v10.8h, v5.8b, v12.8b
	smlsl2 v10.8h, v5.16b, v12.16b
	sadalp v21.4s, v10.8h
	smull v10.8h, v6.8b, v9.8b
	smlsl2 v10.8h, v6.16b, v9.16b
	sadalp v27.4s, v10.8h
	smull v6.8h, v5.8b, v9.8b
	smlsl2 v6.8h, v5.16b, v9.16b
	sadalp v30.4s, v6.8h
	ldp q6, q5, [x12, #32]
	ldp q9, q10, [x6, #128]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	sadalp v19.4s, v12.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v18.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v31.4s, v9.8h
	ldp q11, q9, [x6, #160]
	smull v12.8h, v5.8b, v10.8b
	smlsl2 v12.8h, v5.16b, v10.16b
	sadalp v7.4s, v12.8h
	smull v12.8h, v6.8b, v11.8b
	smlsl2 v12.8h, v6.16b, v11.16b
	sadalp v8.4s, v12.8h
	smull v12.8h, v5.8b, v11.8b
	smlsl2 v12.8h, v5.16b, v11.16b
	sadalp v22.4s, v12.8h
	ldp q10, q11, [x6, #192]
	smull v12.8h, v6.8b, v9.8b
	smlsl2 v12.8h, v6.16b, v9.16b
	sadalp v20.4s, v12.8h
	smull v12.8h, v5.8b, v9.8b
	smlsl2 v12.8h, v5.16b, v9.16b
	sadalp v23.4s, v12.8h
	smull v9.8h, v6.8b, v10.8b
	smlsl2 v9.8h, v6.16b, v10.16b
	sadalp v28.4s, v9.8h
	smull v12.8h, v5.8b, v10.8b
	smlsl2 v12.8h, v5.16b, v10.16b
	sadalp v24.4s, v12.8h
	ldp q9, q10, [x6, #224]
	smull v12.8h, v6.8b, v11.8b
	smlsl2 v12.8h, v6.16b, v11.16b
	sadalp v29.4s, v12.8h
	smull v12.8h, v5.8b, v11.8b
	smlsl2 v12.8h, v5.16b, v11.16b
	sadalp v25.4s, v12.8h
	smull v11.8h, v6.8b, v9.8b
	smlsl2 v11.8h, v6.16b, v9.16b
	smull v12.8h, v5.8b, v9.8b
	sadalp v26.4s, v11.8h
	smlsl2 v12.8h, v5.16b, v9.16b
	smull v9.8h, v6.8b, v10.8b
	sadalp v21.4s, v12.8h
	smlsl2 v9.8h, v6.16b, v10.16b
	smull v6.8h, v5.8b, v10.8b
	sadalp v27.4s, v9.8h
	smlsl2 v6.8h, v5.16b, v10.16b
	sadalp v30.4s, v6.8h
	subs x20, x20, #1
	add x12, x12, #128
	add x6, x6, #512
	mov v9.16b, v8.16b
	mov v5.16b, v7.16b
	mov v10.16b, v31.16b
	b.ne .L0
