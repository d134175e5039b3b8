	ldp q9, q10, [x16, #-96]
	subs x17, x17, #1
	ldp q12, q13, [x15, #-256]
	bfmmla v23.4s, v10.8h, v13.8h
	bfmmla v2.4s, v9.8h, v12.8h
	ldp q11, q8, [x16, #-64]
	bfmmla v22.4s, v10.8h, v12.8h
	bfmmla v24.4s, v11.8h, v12.8h
	bfmmla v5.4s, v9.8h, v13.8h
	bfmmla v25.4s, v11.8h, v13.8h
	ldp q12, q13, [x15, #-224]
	bfmmla v6.4s, v9.8h, v13.8h
	bfmmla v21.4s, v10.8h, v13.8h
	bfmmla v27.4s, v11.8h, v13.8h
	bfmmla v3.4s, v9.8h, v12.8h
	bfmmla v20.4s, v10.8h, v12.8h
	bfmmla v26.4s, v11.8h, v12.8h
	ldp q12, q13, [x15, #-192]
	bfmmla v7.4s, v9.8h, v13.8h
	bfmmla v19.4s, v10.8h, v13.8h
	bfmmla v29.4s, v11.8h, v13.8h
	bfmmla v4.4s, v9.8h, v12.8h
	bfmmla v18.4s, v10.8h, v12.8h
	bfmmla v28.4s, v11.8h, v12.8h
	ldp q12, q13, [x15, #-160]
	bfmmla v1.4s, v9.8h, v13.8h
	bfmmla v17.4s, v10.8h, v13.8h
	bfmmla v31.4s, v11.8h, v13.8h
	bfmmla v0.4s, v9.8h, v12.8h
	bfmmla v16.4s, v10.8h, v12.8h
	bfmmla v30.4s, v11.8h, v12.8h
	ldp q10, q9, [x16, #-32]
	ldp q11, q12, [x15, #-128]
	bfmmla v5.4s, v8.8h, v12.8h
	bfmmla v25.4s, v9.8h, v12.8h
	bfmmla v2.4s, v8.8h, v11.8h
	bfmmla v22.4s, v10.8h, v11.8h
	bfmmla v24.4s, v9.8h, v11.8h
	bfmmla v23.4s, v10.8h, v12.8h
	ldp q11, q12, [x15, #-96]
	bfmmla v6.4s, v8.8h, v12.8h
	bfmmla v21.4s, v10.8h, v12.8h
	bfmmla v27.4s, v9.8h, v12.8h
	bfmmla v3.4s, v8.8h, v11.8h
	bfmmla v20.4s, v10.8h, v11.8h
	bfmmla v26.4s, v9.8h, v11.8h
	ldp q11, q12, [x15, #-64]
	bfmmla v7.4s, v8.8h, v12.8h
	bfmmla v19.4s, v10.8h, v12.8h
	bfmmla v29.4s, v9.8h, v12.8h
	bfmmla v4.4s, v8.8h, v11.8h
	bfmmla v18.4s, v10.8h, v11.8h
	bfmmla v28.4s, v9.8h, v11.8h
	ldp q11, q12, [x15, #-32]
	bfmmla v1.4s, v8.8h, v12.8h
	bfmmla v17.4s, v10.8h, v12.8h
	bfmmla v31.4s, v9.8h, v12.8h
	ldp q12, q13, [x15]
	bfmmla v0.4s, v8.8h, v11.8h
	bfmmla v16.4s, v10.8h, v11.8h
	bfmmla v30.4s, v9.8h, v11.8h
	ldp q9, q10, [x16]
	ldp q11, q8, [x16, #32]
	bfmmla v22.4s, v10.8h, v12.8h
	bfmmla v23.4s, v10.8h, v13.8h
	bfmmla v2.4s, v9.8h, v12.8h
	bfmmla v24.4s, v11.8h, v12.8h
	bfmmla v5.4s, v9.8h, v13.8h
	bfmmla v25.4s, v11.8h, v13.8h
	ldp q12, q13, [x15, #32]
	bfmmla v6.4s, v9.8h, v13.8h
	bfmmla v21.4s, v10.8h, v13.8h
	bfmmla v27.4s, v11.8h, v13.8h
	bfmmla v3.4s, v9.8h, v12.8h
	bfmmla v20.4s, v10.8h, v12.8h
	bfmmla v26.4s, v11.8h, v12.8h
	ldp q12, q13, [x15, #64]
	bfmmla v7.4s, v9.8h, v13.8h
	bfmmla v19.4s, v10.8h, v13.8h
	bfmmla v29.4s, v11.8h, v13.8h
	bfmmla v4.4s, v9.8h, v12.8h
	bfmmla v18.4s, v10.8h, v12.8h
	bfmmla v28.4s, v11.8h, v12.8h
	ldp q12, q13, [x15, #96]
	bfmmla v1.4s, v9.8h, v13.8h
	bfmmla v17.4s, v10.8h, v13.8h
	bfmmla v31.4s, v11.8h, v13.8h
	bfmmla v0.4s, v9.8h, v12.8h
	bfmmla v16.4s, v10.8h, v12.8h
	bfmmla v30.4s, v11.8h, v12.8h
	ldp q10, q9, [x16, #64]
	add x16, x16, #192
	ldp q11, q12, [x15, #128]
	bfmmla v5.4s, v8.8h, v12.8h
	bfmmla v25.4s, v9.8h, v12.8h
	bfmmla v2.4s, v8.8h, v11.8h
	bfmmla v22.4s, v10.8h, v11.8h
	bfmmla v24.4s, v9.8h, v11.8h
	bfmmla v23.4s, v10.8h, v12.8h
	ldp q11, q12, [x15, #160]
	bfmmla v6.4s, v8.8h, v12.8h
	bfmmla v21.4s, v10.8h, v12.8h
	bfmmla v27.4s, v9.8h, v12.8h
	bfmmla v3.4s, v8.8h, v11.8h
	bfmmla v20.4s, v10.8h, v11.8h
	bfmmla v26.4s, v9.8h, v11.8h
	ldp q11, q12, [x15, #192]
	bfmmla v7.4s, v8.8h, v12.8h
	bfmmla v19.4s, v10.8h, v12.8h
	bfmmla v29.4s, v9.8h, v12.8h
	bfmmla v4.4s, v8.8h, v11.8h
	bfmmla v18.4s, v10.8h, v11.8h
	bfmmla v28.4s, v9.8h, v11.8h
	ldp q11, q12, [x15, #224]
	add x15, x15, #512
	bfmmla v1.4s, v8.8h, v12.8h
	bfmmla v17.4s, v10.8h, v12.8h
	bfmmla v31.4s, v9.8h, v12.8h
	bfmmla v0.4s, v8.8h, v11.8h
	bfmmla v16.4s, v10.8h, v11.8h
	bfmmla v30.4s, v9.8h, v11.8h
	b.ne .L0
