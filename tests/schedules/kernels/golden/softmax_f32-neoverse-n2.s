	ldp q23, q25, [x1, #-32]
	mov v28.16b, v5.16b
	mov v29.16b, v6.16b
	ldp q8, q9, [x1], #64
	mov v30.16b, v7.16b
	subs x2, x2, #1
	fsub v25.4s, v25.4s, v19.4s
	fsub v23.4s, v23.4s, v19.4s
	fmax v31.4s, v25.4s, v0.4s
	mov v25.16b, v2.16b
	fmax v26.4s, v23.4s, v0.4s
	mov v23.16b, v2.16b
	fmla v25.4s, v1.4s, v31.4s
	fmla v23.4s, v1.4s, v26.4s
	fsub v27.4s, v2.4s, v25.4s
	shl v25.4s, v25.4s, #23
	fsub v24.4s, v2.4s, v23.4s
	fmla v27.4s, v1.4s, v31.4s
	shl v23.4s, v23.4s, #23
	fmla v24.4s, v1.4s, v26.4s
	fmla v27.4s, v3.4s, v31.4s
	mov v31.16b, v6.16b
	fmla v24.4s, v3.4s, v26.4s
	mov v26.16b, v17.16b
	fmla v28.4s, v4.4s, v24.4s
	fmla v29.4s, v24.4s, v28.4s
	mov v28.16b, v5.16b
	fmla v28.4s, v4.4s, v27.4s
	fmla v30.4s, v24.4s, v29.4s
	mov v29.16b, v17.16b
	fmla v31.4s, v27.4s, v28.4s
	mov v28.16b, v7.16b
	fmla v26.4s, v24.4s, v30.4s
	fmla v28.4s, v27.4s, v31.4s
	fsub v31.4s, v8.4s, v19.4s
	mov v8.16b, v2.16b
	fmax v31.4s, v31.4s, v0.4s
	fmul v24.4s, v24.4s, v26.4s
	mov v26.16b, v17.16b
	fmla v8.4s, v1.4s, v31.4s
	fmla v29.4s, v27.4s, v28.4s
	mov v28.16b, v6.16b
	fmla v23.4s, v24.4s, v23.4s
	fsub v30.4s, v2.4s, v8.4s
	fmul v27.4s, v27.4s, v29.4s
	fsub v29.4s, v9.4s, v19.4s
	fadd v18.4s, v18.4s, v23.4s
	fmla v30.4s, v1.4s, v31.4s
	fmax v24.4s, v29.4s, v0.4s
	mov v29.16b, v2.16b
	fmla v25.4s, v27.4s, v25.4s
	fmla v29.4s, v1.4s, v24.4s
	fmla v30.4s, v3.4s, v31.4s
	mov v31.16b, v5.16b
	stp q23, q25, [x0, #-32]
	mov v23.16b, v17.16b
	fadd v20.4s, v20.4s, v25.4s
	fmla v31.4s, v4.4s, v30.4s
	fmla v28.4s, v30.4s, v31.4s
	mov v31.16b, v7.16b
	fmla v31.4s, v30.4s, v28.4s
	shl v28.4s, v8.4s, #23
	fmla v26.4s, v30.4s, v31.4s
	fmul v26.4s, v30.4s, v26.4s
	fsub v30.4s, v2.4s, v29.4s
	fmla v30.4s, v1.4s, v24.4s
	fmla v28.4s, v26.4s, v28.4s
	mov v26.16b, v6.16b
	fmla v30.4s, v3.4s, v24.4s
	mov v24.16b, v5.16b
	fadd v21.4s, v21.4s, v28.4s
	fmla v24.4s, v4.4s, v30.4s
	fmla v26.4s, v30.4s, v24.4s
	mov v24.16b, v7.16b
	fmla v24.4s, v30.4s, v26.4s
	fmla v23.4s, v30.4s, v24.4s
	shl v24.4s, v29.4s, #23
	fmul v23.4s, v30.4s, v23.4s
	fmla v24.4s, v23.4s, v24.4s
	fadd v22.4s, v22.4s, v24.4s
	stp q28, q24, [x0], #64
	b.ne .L0
