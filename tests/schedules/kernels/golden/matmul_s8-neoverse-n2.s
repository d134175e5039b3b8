	ldp q4, q18, [x25, #-192]
	subs x13, x13, #1
	ldp q19, q20, [x9, #-128]
	smmla v12.4s, v18.16b, v20.16b
	smmla v14.4s, v4.16b, v19.16b
	ldp q21, q22, [x25, #-160]
	smmla v1.4s, v18.16b, v19.16b
	smmla v8.4s, v21.16b, v19.16b
	ldp q23, q0, [x25, #-128]
	smmla v28.4s, v22.16b, v19.16b
	smmla v24.4s, v23.16b, v19.16b
	smmla v6.4s, v0.16b, v19.16b
	smmla v3.4s, v4.16b, v20.16b
	smmla v10.4s, v21.16b, v20.16b
	smmla v30.4s, v22.16b, v20.16b
	smmla v26.4s, v23.16b, v20.16b
	smmla v16.4s, v0.16b, v20.16b
	ldp q19, q20, [x9, #-96]
	smmla v2.4s, v4.16b, v20.16b
	smmla v13.4s, v18.16b, v20.16b
	smmla v11.4s, v21.16b, v20.16b
	smmla v31.4s, v22.16b, v20.16b
	smmla v27.4s, v23.16b, v20.16b
	smmla v17.4s, v0.16b, v20.16b
	smmla v15.4s, v4.16b, v19.16b
	smmla v5.4s, v18.16b, v19.16b
	smmla v9.4s, v21.16b, v19.16b
	smmla v29.4s, v22.16b, v19.16b
	smmla v25.4s, v23.16b, v19.16b
	smmla v7.4s, v0.16b, v19.16b
	ldp q0, q4, [x25, #-96]
	ldp q18, q19, [x25, #-64]
	ldp q20, q21, [x25, #-32]
	ldp q22, q23, [x9, #-64]
	smmla v12.4s, v4.16b, v23.16b
	smmla v30.4s, v19.16b, v23.16b
	smmla v16.4s, v21.16b, v23.16b
	smmla v14.4s, v0.16b, v22.16b
	smmla v1.4s, v4.16b, v22.16b
	smmla v8.4s, v18.16b, v22.16b
	smmla v28.4s, v19.16b, v22.16b
	smmla v24.4s, v20.16b, v22.16b
	smmla v6.4s, v21.16b, v22.16b
	smmla v3.4s, v0.16b, v23.16b
	smmla v10.4s, v18.16b, v23.16b
	smmla v26.4s, v20.16b, v23.16b
	ldp q22, q23, [x9, #-32]
	smmla v2.4s, v0.16b, v23.16b
	smmla v13.4s, v4.16b, v23.16b
	smmla v11.4s, v18.16b, v23.16b
	smmla v31.4s, v19.16b, v23.16b
	smmla v27.4s, v20.16b, v23.16b
	smmla v17.4s, v21.16b, v23.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v5.4s, v4.16b, v22.16b
	smmla v9.4s, v18.16b, v22.16b
	smmla v29.4s, v19.16b, v22.16b
	smmla v25.4s, v20.16b, v22.16b
	smmla v7.4s, v21.16b, v22.16b
	ldp q0, q4, [x25]
	ldp q18, q19, [x25, #32]
	ldp q20, q21, [x25, #64]
	ldp q22, q23, [x9]
	smmla v12.4s, v4.16b, v23.16b
	smmla v30.4s, v19.16b, v23.16b
	smmla v16.4s, v21.16b, v23.16b
	smmla v14.4s, v0.16b, v22.16b
	smmla v1.4s, v4.16b, v22.16b
	smmla v8.4s, v18.16b, v22.16b
	smmla v28.4s, v19.16b, v22.16b
	smmla v24.4s, v20.16b, v22.16b
	smmla v6.4s, v21.16b, v22.16b
	smmla v3.4s, v0.16b, v23.16b
	smmla v10.4s, v18.16b, v23.16b
	smmla v26.4s, v20.16b, v23.16b
	ldp q22, q23, [x9, #32]
	smmla v2.4s, v0.16b, v23.16b
	smmla v13.4s, v4.16b, v23.16b
	smmla v11.4s, v18.16b, v23.16b
	smmla v31.4s, v19.16b, v23.16b
	smmla v27.4s, v20.16b, v23.16b
	smmla v17.4s, v21.16b, v23.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v5.4s, v4.16b, v22.16b
	smmla v9.4s, v18.16b, v22.16b
	smmla v29.4s, v19.16b, v22.16b
	smmla v25.4s, v20.16b, v22.16b
	smmla v7.4s, v21.16b, v22.16b
	ldp q0, q18, [x25, #96]
	ldp q19, q20, [x25, #128]
	ldp q21, q4, [x25, #160]
	add x25, x25, #384
	ldp q22, q23, [x9, #64]
	smmla v12.4s, v18.16b, v23.16b
	smmla v30.4s, v20.16b, v23.16b
	smmla v16.4s, v4.16b, v23.16b
	smmla v14.4s, v0.16b, v22.16b
	smmla v1.4s, v18.16b, v22.16b
	smmla v8.4s, v19.16b, v22.16b
	smmla v28.4s, v20.16b, v22.16b
	smmla v24.4s, v21.16b, v22.16b
	smmla v6.4s, v4.16b, v22.16b
	smmla v3.4s, v0.16b, v23.16b
	smmla v10.4s, v19.16b, v23.16b
	smmla v26.4s, v21.16b, v23.16b
	ldp q22, q23, [x9, #96]
	add x9, x9, #256
	smmla v2.4s, v0.16b, v23.16b
	smmla v13.4s, v18.16b, v23.16b
	smmla v11.4s, v19.16b, v23.16b
	smmla v31.4s, v20.16b, v23.16b
	smmla v27.4s, v21.16b, v23.16b
	smmla v17.4s, v4.16b, v23.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v5.4s, v18.16b, v22.16b
	smmla v9.4s, v19.16b, v22.16b
	smmla v29.4s, v20.16b, v22.16b
	smmla v25.4s, v21.16b, v22.16b
	smmla v7.4s, v4.16b, v22.16b
	b.ne .L0
