	add x12, x2, x11
	mov v5.16b, v26.16b
	mov v7.16b, v29.16b
	mov v16.16b, v30.16b
	ldp q6, q17, [x12]
	fsub v6.4s, v6.4s, v1.4s
	mov v18.16b, v31.16b
	fmax v6.4s, v6.4s, v24.4s
	fsub v17.4s, v17.4s, v1.4s
	fmla v5.4s, v25.4s, v6.4s
	mov v19.16b, v9.16b
	fsub v20.4s, v26.4s, v5.4s
	fmax v17.4s, v17.4s, v24.4s
	shl v5.4s, v5.4s, #23
	mov v21.16b, v26.16b
	fmla v21.4s, v25.4s, v17.4s
	fmla v20.4s, v25.4s, v6.4s
	fsub v22.4s, v26.4s, v21.4s
	fmla v20.4s, v27.4s, v6.4s
	fmla v22.4s, v25.4s, v17.4s
	shl v6.4s, v21.4s, #23
	fmla v7.4s, v28.4s, v20.4s
	fmla v22.4s, v27.4s, v17.4s
	mov v17.16b, v29.16b
	fmla v16.4s, v20.4s, v7.4s
	fmla v17.4s, v28.4s, v22.4s
	mov v7.16b, v30.16b
	fmla v18.4s, v20.4s, v16.4s
	fmla v7.4s, v22.4s, v17.4s
	mov v16.16b, v31.16b
	fmla v19.4s, v20.4s, v18.4s
	fmla v16.4s, v22.4s, v7.4s
	fmul v7.4s, v20.4s, v19.4s
	mov v17.16b, v9.16b
	fmla v17.4s, v22.4s, v16.4s
	fmla v5.4s, v7.4s, v5.4s
	fmul v7.4s, v22.4s, v17.4s
	fmla v6.4s, v7.4s, v6.4s
	stp q5, q6, [x12]
	ldp q7, q16, [x12, #32]
	fsub v7.4s, v7.4s, v1.4s
	fsub v16.4s, v16.4s, v1.4s
	mov v17.16b, v26.16b
	fmax v7.4s, v7.4s, v24.4s
	fmax v16.4s, v16.4s, v24.4s
	mov v18.16b, v29.16b
	mov v19.16b, v30.16b
	mov v20.16b, v26.16b
	fmla v17.4s, v25.4s, v7.4s
	fmla v20.4s, v25.4s, v16.4s
	fsub v21.4s, v26.4s, v17.4s
	fsub v22.4s, v26.4s, v20.4s
	fmla v21.4s, v25.4s, v7.4s
	mov v23.16b, v31.16b
	fmla v22.4s, v25.4s, v16.4s
	fmla v21.4s, v27.4s, v7.4s
	fmla v22.4s, v27.4s, v16.4s
	mov v7.16b, v29.16b
	fmla v18.4s, v28.4s, v21.4s
	fmla v7.4s, v28.4s, v22.4s
	mov v16.16b, v30.16b
	fmla v19.4s, v21.4s, v18.4s
	fmla v16.4s, v22.4s, v7.4s
	mov v7.16b, v31.16b
	fmla v23.4s, v21.4s, v19.4s
	fmla v7.4s, v22.4s, v16.4s
	mov v16.16b, v9.16b
	fmla v16.4s, v21.4s, v23.4s
	mov v18.16b, v9.16b
	fmul v16.4s, v21.4s, v16.4s
	fmla v18.4s, v22.4s, v7.4s
	fmul v7.4s, v22.4s, v18.4s
	fadd v0.4s, v0.4s, v5.4s
	fadd v2.4s, v2.4s, v6.4s
	shl v5.4s, v17.4s, #23
	fmla v5.4s, v16.4s, v5.4s
	shl v6.4s, v20.4s, #23
	fadd v3.4s, v3.4s, v5.4s
	fmla v6.4s, v7.4s, v6.4s
	fadd v4.4s, v4.4s, v6.4s
	stp q5, q6, [x12, #32]
	add x11, x11, #64
	cmp x11, #3072
	b.ne .L0
