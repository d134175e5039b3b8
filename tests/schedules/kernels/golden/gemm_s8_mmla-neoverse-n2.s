	ldp q9, q10, [x18]
	subs x0, x0, #1
	ldp q11, q12, [x17, #-256]
	smmla v27.4s, v10.16b, v12.16b
	smmla v8.4s, v9.16b, v11.16b
	ldp q13, q14, [x18, #32]
	smmla v28.4s, v10.16b, v11.16b
	smmla v24.4s, v13.16b, v11.16b
	ldp q15, q0, [x18, #64]
	smmla v20.4s, v14.16b, v11.16b
	smmla v16.4s, v15.16b, v11.16b
	smmla v4.4s, v0.16b, v11.16b
	smmla v31.4s, v9.16b, v12.16b
	smmla v23.4s, v13.16b, v12.16b
	smmla v19.4s, v14.16b, v12.16b
	smmla v7.4s, v15.16b, v12.16b
	smmla v3.4s, v0.16b, v12.16b
	ldp q11, q12, [x17, #-224]
	smmla v29.4s, v9.16b, v12.16b
	smmla v25.4s, v10.16b, v12.16b
	smmla v21.4s, v13.16b, v12.16b
	smmla v17.4s, v14.16b, v12.16b
	smmla v5.4s, v15.16b, v12.16b
	smmla v1.4s, v0.16b, v12.16b
	smmla v30.4s, v9.16b, v11.16b
	smmla v26.4s, v10.16b, v11.16b
	smmla v22.4s, v13.16b, v11.16b
	smmla v18.4s, v14.16b, v11.16b
	smmla v6.4s, v15.16b, v11.16b
	smmla v2.4s, v0.16b, v11.16b
	ldp q0, q9, [x18, #96]
	ldp q10, q11, [x18, #128]
	ldp q12, q13, [x18, #160]
	ldp q14, q15, [x17, #-192]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #-160]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q9, [x18, #192]
	ldp q10, q11, [x18, #224]
	ldp q12, q13, [x18, #256]
	ldp q14, q15, [x17, #-128]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #-96]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q9, [x18, #288]
	ldp q10, q11, [x18, #320]
	ldp q12, q13, [x18, #352]
	ldp q14, q15, [x17, #-64]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #-32]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q9, [x18, #384]
	ldp q10, q11, [x18, #416]
	ldp q12, q13, [x18, #448]
	ldp q14, q15, [x17]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #32]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q9, [x18, #480]
	ldp q10, q11, [x18, #512]
	ldp q12, q13, [x18, #544]
	ldp q14, q15, [x17, #64]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #96]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q9, [x18, #576]
	ldp q10, q11, [x18, #608]
	ldp q12, q13, [x18, #640]
	ldp q14, q15, [x17, #128]
	smmla v27.4s, v9.16b, v15.16b
	smmla v19.4s, v11.16b, v15.16b
	smmla v3.4s, v13.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v9.16b, v14.16b
	smmla v24.4s, v10.16b, v14.16b
	smmla v20.4s, v11.16b, v14.16b
	smmla v16.4s, v12.16b, v14.16b
	smmla v4.4s, v13.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v10.16b, v15.16b
	smmla v7.4s, v12.16b, v15.16b
	ldp q14, q15, [x17, #160]
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v9.16b, v15.16b
	smmla v21.4s, v10.16b, v15.16b
	smmla v17.4s, v11.16b, v15.16b
	smmla v5.4s, v12.16b, v15.16b
	smmla v1.4s, v13.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v9.16b, v14.16b
	smmla v22.4s, v10.16b, v14.16b
	smmla v18.4s, v11.16b, v14.16b
	smmla v6.4s, v12.16b, v14.16b
	smmla v2.4s, v13.16b, v14.16b
	ldp q0, q10, [x18, #672]
	ldp q11, q12, [x18, #704]
	ldp q13, q9, [x18, #736]
	add x18, x18, #768
	ldp q14, q15, [x17, #192]
	smmla v27.4s, v10.16b, v15.16b
	smmla v19.4s, v12.16b, v15.16b
	smmla v3.4s, v9.16b, v15.16b
	smmla v8.4s, v0.16b, v14.16b
	smmla v28.4s, v10.16b, v14.16b
	smmla v24.4s, v11.16b, v14.16b
	smmla v20.4s, v12.16b, v14.16b
	smmla v16.4s, v13.16b, v14.16b
	smmla v4.4s, v9.16b, v14.16b
	smmla v31.4s, v0.16b, v15.16b
	smmla v23.4s, v11.16b, v15.16b
	smmla v7.4s, v13.16b, v15.16b
	ldp q14, q15, [x17, #224]
	add x17, x17, #512
	smmla v29.4s, v0.16b, v15.16b
	smmla v25.4s, v10.16b, v15.16b
	smmla v21.4s, v11.16b, v15.16b
	smmla v17.4s, v12.16b, v15.16b
	smmla v5.4s, v13.16b, v15.16b
	smmla v1.4s, v9.16b, v15.16b
	smmla v30.4s, v0.16b, v14.16b
	smmla v26.4s, v10.16b, v14.16b
	smmla v22.4s, v11.16b, v14.16b
	smmla v18.4s, v12.16b, v14.16b
	smmla v6.4s, v13.16b, v14.16b
	smmla v2.4s, v9.16b, v14.16b
	b.ne .L0
