	mov v23.16b, v2.16b
	mov v28.16b, v5.16b
	mov v26.16b, v6.16b
	ldp q24, q25, [x1, #-32]
	fsub v24.4s, v24.4s, v19.4s
	mov v27.16b, v17.16b
	fsub v29.4s, v25.4s, v19.4s
	mov v25.16b, v16.16b
	fmax v9.4s, v24.4s, v0.4s
	fmax v10.4s, v29.4s, v0.4s
	fmla v23.4s, v1.4s, v9.4s
	mov v24.16b, v2.16b
	mov v11.16b, v5.16b
	fmla v24.4s, v1.4s, v10.4s
	mov v8.16b, v6.16b
	fsub v29.4s, v2.4s, v23.4s
	mov v31.16b, v17.16b
	fsub v30.4s, v2.4s, v24.4s
	ldp q12, q13, [x1], #64
	fmla v29.4s, v1.4s, v9.4s
	fsub v12.4s, v12.4s, v19.4s
	fmla v30.4s, v1.4s, v10.4s
	fmax v12.4s, v12.4s, v0.4s
	fmla v29.4s, v3.4s, v9.4s
	mov v9.16b, v2.16b
	fmla v9.4s, v1.4s, v12.4s
	fmla v30.4s, v3.4s, v10.4s
	fsub v10.4s, v2.4s, v9.4s
	fmla v28.4s, v4.4s, v29.4s
	mov v14.16b, v16.16b
	fmla v10.4s, v1.4s, v12.4s
	fmla v11.4s, v4.4s, v30.4s
	fmla v10.4s, v3.4s, v12.4s
	mov v12.16b, v5.16b
	fmla v12.4s, v4.4s, v10.4s
	mov v15.16b, v6.16b
	mov v7.16b, v17.16b
	fmla v26.4s, v29.4s, v28.4s
	fsub v28.4s, v13.4s, v19.4s
	fmla v8.4s, v30.4s, v11.4s
	fmax v28.4s, v28.4s, v0.4s
	fmla v15.4s, v10.4s, v12.4s
	mov v11.16b, v2.16b
	fmla v11.4s, v1.4s, v28.4s
	fmla v27.4s, v29.4s, v26.4s
	fsub v26.4s, v2.4s, v11.4s
	fmla v31.4s, v30.4s, v8.4s
	mov v8.16b, v16.16b
	fmla v26.4s, v1.4s, v28.4s
	fmla v7.4s, v10.4s, v15.4s
	fmla v26.4s, v3.4s, v28.4s
	mov v28.16b, v5.16b
	fmla v25.4s, v29.4s, v27.4s
	fmla v28.4s, v4.4s, v26.4s
	mov v27.16b, v6.16b
	fmla v14.4s, v30.4s, v31.4s
	fmla v27.4s, v26.4s, v28.4s
	mov v28.16b, v17.16b
	fmla v8.4s, v10.4s, v7.4s
	fmla v28.4s, v26.4s, v27.4s
	fmul v7.4s, v29.4s, v25.4s
	mov v25.16b, v16.16b
	fmul v27.4s, v30.4s, v14.4s
	fmla v25.4s, v26.4s, v28.4s
	fmul v28.4s, v10.4s, v8.4s
	fmul v25.4s, v26.4s, v25.4s
	shl v23.4s, v23.4s, #23
	fmla v23.4s, v7.4s, v23.4s
	shl v7.4s, v24.4s, #23
	fmla v7.4s, v27.4s, v7.4s
	shl v24.4s, v9.4s, #23
	fadd v18.4s, v18.4s, v23.4s
	fmla v24.4s, v28.4s, v24.4s
	fadd v20.4s, v20.4s, v7.4s
	shl v26.4s, v11.4s, #23
	fadd v21.4s, v21.4s, v24.4s
	fmla v26.4s, v25.4s, v26.4s
	fadd v22.4s, v22.4s, v26.4s
	stp q23, q7, [x0, #-32]
	stp q24, q26, [x0], #64
	subs x2, x2, #1
	b.ne .L0
