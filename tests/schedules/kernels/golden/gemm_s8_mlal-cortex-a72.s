	ldp q27, q25, [x26, #-256]
	ldp q26, q24, [x26]
	ldp q28, q29, [x25, #-64]
	smull2 v30.8h, v27.16b, v28.16b
	smull2 v31.8h, v26.16b, v28.16b
	sadalp v4.4s, v30.8h
	sadalp v0.4s, v31.8h
	smull2 v30.8h, v27.16b, v29.16b
	sadalp v5.4s, v30.8h
	smull2 v31.8h, v26.16b, v29.16b
	sadalp v1.4s, v31.8h
	ldp q30, q31, [x25, #-32]
	smull2 v8.8h, v27.16b, v30.16b
	sadalp v6.4s, v8.8h
	smull v8.8h, v27.8b, v28.8b
	smull v28.8h, v26.8b, v28.8b
	sadalp v4.4s, v8.8h
	smull v8.8h, v27.8b, v29.8b
	smull v29.8h, v26.8b, v29.8b
	sadalp v0.4s, v28.8h
	smull v28.8h, v27.8b, v30.8b
	smull2 v9.8h, v26.16b, v30.16b
	sadalp v5.4s, v8.8h
	smull v30.8h, v26.8b, v30.8b
	sadalp v2.4s, v9.8h
	sadalp v1.4s, v29.8h
	smull2 v29.8h, v27.16b, v31.16b
	smull v8.8h, v27.8b, v31.8b
	sadalp v6.4s, v28.8h
	sadalp v7.4s, v29.8h
	smull2 v28.8h, v26.16b, v31.16b
	sadalp v2.4s, v30.8h
	sadalp v3.4s, v28.8h
	smull v28.8h, v26.8b, v31.8b
	sadalp v7.4s, v8.8h
	sadalp v3.4s, v28.8h
	ldp q28, q29, [x25]
	smull2 v30.8h, v27.16b, v28.16b
	sadalp v17.4s, v30.8h
	smull2 v30.8h, v26.16b, v28.16b
	sadalp v16.4s, v30.8h
	smull2 v31.8h, v27.16b, v29.16b
	sadalp v19.4s, v31.8h
	ldp q30, q31, [x25, #32]
	smull2 v8.8h, v26.16b, v29.16b
	sadalp v18.4s, v8.8h
	smull v8.8h, v27.8b, v28.8b
	smull v28.8h, v26.8b, v28.8b
	sadalp v17.4s, v8.8h
	smull v8.8h, v27.8b, v29.8b
	smull v29.8h, v26.8b, v29.8b
	sadalp v16.4s, v28.8h
	smull2 v28.8h, v27.16b, v30.16b
	smull v9.8h, v27.8b, v30.8b
	sadalp v19.4s, v8.8h
	sadalp v21.4s, v28.8h
	smull2 v28.8h, v26.16b, v30.16b
	sadalp v18.4s, v29.8h
	smull v29.8h, v26.8b, v30.8b
	sadalp v20.4s, v28.8h
	sadalp v21.4s, v9.8h
	smull2 v28.8h, v27.16b, v31.16b
	smull v27.8h, v27.8b, v31.8b
	sadalp v20.4s, v29.8h
	sadalp v23.4s, v28.8h
	sadalp v23.4s, v27.8h
	smull2 v27.8h, v26.16b, v31.16b
	smull v26.8h, v26.8b, v31.8b
	sadalp v22.4s, v27.8h
	sadalp v22.4s, v26.8h
	ldp q27, q28, [x25, #64]
	smull2 v29.8h, v25.16b, v27.16b
	smull v30.8h, v25.8b, v27.8b
	smull2 v31.8h, v24.16b, v27.16b
	sadalp v4.4s, v29.8h
	sadalp v0.4s, v31.8h
	smull2 v29.8h, v25.16b, v28.16b
	sadalp v5.4s, v29.8h
	smull2 v29.8h, v24.16b, v28.16b
	sadalp v1.4s, v29.8h
	sadalp v4.4s, v30.8h
	ldp q26, q29, [x25, #96]
	smull v27.8h, v24.8b, v27.8b
	sadalp v0.4s, v27.8h
	smull v27.8h, v25.8b, v28.8b
	smull v28.8h, v24.8b, v28.8b
	sadalp v5.4s, v27.8h
	smull2 v27.8h, v25.16b, v26.16b
	smull v30.8h, v25.8b, v26.8b
	sadalp v1.4s, v28.8h
	sadalp v6.4s, v27.8h
	smull2 v27.8h, v24.16b, v26.16b
	sadalp v6.4s, v30.8h
	smull v26.8h, v24.8b, v26.8b
	sadalp v2.4s, v27.8h
	sadalp v2.4s, v26.8h
	smull2 v26.8h, v25.16b, v29.16b
	smull v27.8h, v25.8b, v29.8b
	sadalp v7.4s, v26.8h
	sadalp v7.4s, v27.8h
	smull2 v26.8h, v24.16b, v29.16b
	smull v27.8h, v24.8b, v29.8b
	ldp q28, q29, [x25, #128]
	sadalp v3.4s, v26.8h
	sadalp v3.4s, v27.8h
	smull2 v26.8h, v25.16b, v28.16b
	sadalp v17.4s, v26.8h
	ldp q27, q26, [x25, #160]
	smull2 v30.8h, v24.16b, v28.16b
	sadalp v16.4s, v30.8h
	smull v30.8h, v25.8b, v28.8b
	smull2 v31.8h, v25.16b, v29.16b
	sadalp v19.4s, v31.8h
	smull v28.8h, v24.8b, v28.8b
	smull v31.8h, v25.8b, v29.8b
	sadalp v17.4s, v30.8h
	smull2 v30.8h, v24.16b, v29.16b
	smull v29.8h, v24.8b, v29.8b
	sadalp v16.4s, v28.8h
	sadalp v18.4s, v30.8h
	smull2 v28.8h, v25.16b, v27.16b
	sadalp v19.4s, v31.8h
	smull v30.8h, v25.8b, v27.8b
	sadalp v21.4s, v28.8h
	sadalp v18.4s, v29.8h
	sadalp v21.4s, v30.8h
	smull2 v28.8h, v24.16b, v27.16b
	smull v27.8h, v24.8b, v27.8b
	sadalp v20.4s, v28.8h
	sadalp v20.4s, v27.8h
	smull2 v27.8h, v25.16b, v26.16b
	sadalp v23.4s, v27.8h
	subs x27, x27, #1
	add x26, x26, #32
	add x25, x25, #256
	smull v25.8h, v25.8b, v26.8b
	sadalp v23.4s, v25.8h
	smull2 v25.8h, v24.16b, v26.16b
	sadalp v22.4s, v25.8h
	smull v24.8h, v24.8b, v26.8b
	sadalp v22.4s, v24.8h
	b.ne .L0
