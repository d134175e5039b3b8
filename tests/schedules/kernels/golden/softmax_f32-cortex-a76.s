	mov v23.16b, v2.16b
	mov v25.16b, v5.16b
	ldp q24, q26, [x1, #-32]
	fsub v24.4s, v24.4s, v19.4s
	fsub v26.4s, v26.4s, v19.4s
	mov v27.16b, v6.16b
	mov v28.16b, v7.16b
	fmax v29.4s, v24.4s, v0.4s
	fmax v26.4s, v26.4s, v0.4s
	fmla v23.4s, v1.4s, v29.4s
	mov v30.16b, v16.16b
	fsub v31.4s, v2.4s, v23.4s
	mov v24.16b, v2.16b
	fmla v24.4s, v1.4s, v26.4s
	shl v23.4s, v23.4s, #23
	fsub v8.4s, v2.4s, v24.4s
	fmla v31.4s, v1.4s, v29.4s
	fmla v8.4s, v1.4s, v26.4s
	shl v24.4s, v24.4s, #23
	fmla v31.4s, v3.4s, v29.4s
	fmla v8.4s, v3.4s, v26.4s
	mov v26.16b, v5.16b
	fmla v25.4s, v4.4s, v31.4s
	fmla v26.4s, v4.4s, v8.4s
	mov v29.16b, v6.16b
	fmla v27.4s, v31.4s, v25.4s
	fmla v29.4s, v8.4s, v26.4s
	mov v25.16b, v7.16b
	fmla v28.4s, v31.4s, v27.4s
	fmla v25.4s, v8.4s, v29.4s
	mov v26.16b, v16.16b
	fmla v30.4s, v31.4s, v28.4s
	fmla v26.4s, v8.4s, v25.4s
	fmul v25.4s, v31.4s, v30.4s
	fmul v26.4s, v8.4s, v26.4s
	fmla v23.4s, v25.4s, v23.4s
	fmla v24.4s, v26.4s, v24.4s
	stp q23, q24, [x0, #-32]
	ldp q25, q26, [x1], #64
	fsub v25.4s, v25.4s, v19.4s
	fsub v26.4s, v26.4s, v19.4s
	mov v27.16b, v2.16b
	fmax v25.4s, v25.4s, v0.4s
	fmax v26.4s, v26.4s, v0.4s
	mov v28.16b, v5.16b
	mov v29.16b, v6.16b
	mov v30.16b, v2.16b
	fmla v27.4s, v1.4s, v25.4s
	fmla v30.4s, v1.4s, v26.4s
	fsub v31.4s, v2.4s, v27.4s
	fsub v8.4s, v2.4s, v30.4s
	fmla v31.4s, v1.4s, v25.4s
	mov v9.16b, v7.16b
	fmla v8.4s, v1.4s, v26.4s
	fmla v31.4s, v3.4s, v25.4s
	fmla v8.4s, v3.4s, v26.4s
	mov v25.16b, v5.16b
	fmla v28.4s, v4.4s, v31.4s
	fmla v25.4s, v4.4s, v8.4s
	mov v26.16b, v6.16b
	fmla v29.4s, v31.4s, v28.4s
	fmla v26.4s, v8.4s, v25.4s
	mov v25.16b, v7.16b
	fmla v9.4s, v31.4s, v29.4s
	fmla v25.4s, v8.4s, v26.4s
	mov v26.16b, v16.16b
	fmla v26.4s, v31.4s, v9.4s
	mov v28.16b, v16.16b
	fmul v26.4s, v31.4s, v26.4s
	fmla v28.4s, v8.4s, v25.4s
	fmul v25.4s, v8.4s, v28.4s
	fadd v18.4s, v18.4s, v23.4s
	fadd v20.4s, v20.4s, v24.4s
	shl v23.4s, v27.4s, #23
	shl v24.4s, v30.4s, #23
	fmla v23.4s, v26.4s, v23.4s
	fmla v24.4s, v25.4s, v24.4s
	fadd v21.4s, v21.4s, v23.4s
	fadd v22.4s, v22.4s, v24.4s
	subs x2, x2, #1
	stp q23, q24, [x0], #64
	b.ne .L0
