	ldp q3, q17, [x26, #-192]
	subs x12, x12, #1
	ldp q18, q19, [x9, #-128]
	smmla v11.4s, v17.16b, v19.16b
	smmla v14.4s, v3.16b, v18.16b
	ldp q20, q21, [x26, #-160]
	smmla v4.4s, v17.16b, v18.16b
	smmla v31.4s, v20.16b, v18.16b
	ldp q22, q0, [x26, #-128]
	smmla v27.4s, v21.16b, v18.16b
	smmla v23.4s, v22.16b, v18.16b
	smmla v5.4s, v0.16b, v18.16b
	smmla v15.4s, v3.16b, v19.16b
	smmla v8.4s, v20.16b, v19.16b
	smmla v28.4s, v21.16b, v19.16b
	smmla v24.4s, v22.16b, v19.16b
	smmla v6.4s, v0.16b, v19.16b
	ldp q18, q19, [x9, #-96]
	smmla v2.4s, v3.16b, v19.16b
	smmla v13.4s, v17.16b, v19.16b
	smmla v10.4s, v20.16b, v19.16b
	smmla v30.4s, v21.16b, v19.16b
	smmla v26.4s, v22.16b, v19.16b
	smmla v16.4s, v0.16b, v19.16b
	smmla v1.4s, v3.16b, v18.16b
	smmla v12.4s, v17.16b, v18.16b
	smmla v9.4s, v20.16b, v18.16b
	smmla v29.4s, v21.16b, v18.16b
	smmla v25.4s, v22.16b, v18.16b
	smmla v7.4s, v0.16b, v18.16b
	ldp q0, q3, [x26, #-96]
	ldp q17, q18, [x26, #-64]
	ldp q19, q20, [x26, #-32]
	ldp q21, q22, [x9, #-64]
	smmla v11.4s, v3.16b, v22.16b
	smmla v28.4s, v18.16b, v22.16b
	smmla v6.4s, v20.16b, v22.16b
	smmla v14.4s, v0.16b, v21.16b
	smmla v4.4s, v3.16b, v21.16b
	smmla v31.4s, v17.16b, v21.16b
	smmla v27.4s, v18.16b, v21.16b
	smmla v23.4s, v19.16b, v21.16b
	smmla v5.4s, v20.16b, v21.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v8.4s, v17.16b, v22.16b
	smmla v24.4s, v19.16b, v22.16b
	ldp q21, q22, [x9, #-32]
	smmla v2.4s, v0.16b, v22.16b
	smmla v13.4s, v3.16b, v22.16b
	smmla v10.4s, v17.16b, v22.16b
	smmla v30.4s, v18.16b, v22.16b
	smmla v26.4s, v19.16b, v22.16b
	smmla v16.4s, v20.16b, v22.16b
	smmla v1.4s, v0.16b, v21.16b
	smmla v12.4s, v3.16b, v21.16b
	smmla v9.4s, v17.16b, v21.16b
	smmla v29.4s, v18.16b, v21.16b
	smmla v25.4s, v19.16b, v21.16b
	smmla v7.4s, v20.16b, v21.16b
	ldp q0, q3, [x26]
	ldp q17, q18, [x26, #32]
	ldp q19, q20, [x26, #64]
	ldp q21, q22, [x9]
	smmla v11.4s, v3.16b, v22.16b
	smmla v28.4s, v18.16b, v22.16b
	smmla v6.4s, v20.16b, v22.16b
	smmla v14.4s, v0.16b, v21.16b
	smmla v4.4s, v3.16b, v21.16b
	smmla v31.4s, v17.16b, v21.16b
	smmla v27.4s, v18.16b, v21.16b
	smmla v23.4s, v19.16b, v21.16b
	smmla v5.4s, v20.16b, v21.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v8.4s, v17.16b, v22.16b
	smmla v24.4s, v19.16b, v22.16b
	ldp q21, q22, [x9, #32]
	smmla v2.4s, v0.16b, v22.16b
	smmla v13.4s, v3.16b, v22.16b
	smmla v10.4s, v17.16b, v22.16b
	smmla v30.4s, v18.16b, v22.16b
	smmla v26.4s, v19.16b, v22.16b
	smmla v16.4s, v20.16b, v22.16b
	smmla v1.4s, v0.16b, v21.16b
	smmla v12.4s, v3.16b, v21.16b
	smmla v9.4s, v17.16b, v21.16b
	smmla v29.4s, v18.16b, v21.16b
	smmla v25.4s, v19.16b, v21.16b
	smmla v7.4s, v20.16b, v21.16b
	ldp q0, q17, [x26, #96]
	ldp q18, q19, [x26, #128]
	ldp q20, q3, [x26, #160]
	add x26, x26, #384
	ldp q21, q22, [x9, #64]
	smmla v11.4s, v17.16b, v22.16b
	smmla v28.4s, v19.16b, v22.16b
	smmla v6.4s, v3.16b, v22.16b
	smmla v14.4s, v0.16b, v21.16b
	smmla v4.4s, v17.16b, v21.16b
	smmla v31.4s, v18.16b, v21.16b
	smmla v27.4s, v19.16b, v21.16b
	smmla v23.4s, v20.16b, v21.16b
	smmla v5.4s, v3.16b, v21.16b
	smmla v15.4s, v0.16b, v22.16b
	smmla v8.4s, v18.16b, v22.16b
	smmla v24.4s, v20.16b, v22.16b
	ldp q21, q22, [x9, #96]
	add x9, x9, #256
	smmla v2.4s, v0.16b, v22.16b
	smmla v13.4s, v17.16b, v22.16b
	smmla v10.4s, v18.16b, v22.16b
	smmla v30.4s, v19.16b, v22.16b
	smmla v26.4s, v20.16b, v22.16b
	smmla v16.4s, v3.16b, v22.16b
	smmla v1.4s, v0.16b, v21.16b
	smmla v12.4s, v17.16b, v21.16b
	smmla v9.4s, v18.16b, v21.16b
	smmla v29.4s, v19.16b, v21.16b
	smmla v25.4s, v20.16b, v21.16b
	smmla v7.4s, v3.16b, v21.16b
	b.ne .L0
