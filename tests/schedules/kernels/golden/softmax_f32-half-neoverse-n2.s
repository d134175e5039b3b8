	add x12, x2, x11
	mov v7.16b, v23.16b
	mov v17.16b, v27.16b
	add x11, x11, #64
	cmp x11, #3072
	ldp q5, q6, [x12]
	mov v18.16b, v28.16b
	mov v19.16b, v29.16b
	fsub v6.4s, v6.4s, v1.4s
	fsub v5.4s, v5.4s, v1.4s
	fmax v5.4s, v5.4s, v21.4s
	fmla v7.4s, v22.4s, v5.4s
	fsub v16.4s, v23.4s, v7.4s
	shl v7.4s, v7.4s, #23
	fmla v16.4s, v22.4s, v5.4s
	fmla v16.4s, v24.4s, v5.4s
	mov v5.16b, v26.16b
	fmla v5.4s, v25.4s, v16.4s
	fmla v17.4s, v16.4s, v5.4s
	fmax v5.4s, v6.4s, v21.4s
	mov v6.16b, v23.16b
	fmla v6.4s, v22.4s, v5.4s
	fmla v18.4s, v16.4s, v17.4s
	mov v17.16b, v27.16b
	fsub v20.4s, v23.4s, v6.4s
	shl v6.4s, v6.4s, #23
	fmla v20.4s, v22.4s, v5.4s
	fmla v19.4s, v16.4s, v18.4s
	mov v18.16b, v28.16b
	fmla v20.4s, v24.4s, v5.4s
	mov v5.16b, v26.16b
	fmul v16.4s, v16.4s, v19.4s
	mov v19.16b, v29.16b
	fmla v7.4s, v16.4s, v7.4s
	fmla v5.4s, v25.4s, v20.4s
	fadd v0.4s, v0.4s, v7.4s
	fmla v17.4s, v20.4s, v5.4s
	mov v5.16b, v28.16b
	fmla v5.4s, v20.4s, v17.4s
	mov v17.16b, v29.16b
	fmla v17.4s, v20.4s, v5.4s
	fmul v5.4s, v20.4s, v17.4s
	mov v17.16b, v27.16b
	fmla v6.4s, v5.4s, v6.4s
	stp q7, q6, [x12]
	ldp q5, q7, [x12, #32]
	fadd v2.4s, v2.4s, v6.4s
	mov v6.16b, v23.16b
	fsub v7.4s, v7.4s, v1.4s
	fsub v5.4s, v5.4s, v1.4s
	fmax v7.4s, v7.4s, v21.4s
	fmax v5.4s, v5.4s, v21.4s
	fmla v6.4s, v22.4s, v5.4s
	fsub v16.4s, v23.4s, v6.4s
	shl v6.4s, v6.4s, #23
	fmla v16.4s, v22.4s, v5.4s
	fmla v16.4s, v24.4s, v5.4s
	mov v5.16b, v26.16b
	fmla v5.4s, v25.4s, v16.4s
	fmla v17.4s, v16.4s, v5.4s
	mov v5.16b, v23.16b
	fmla v5.4s, v22.4s, v7.4s
	fmla v18.4s, v16.4s, v17.4s
	mov v17.16b, v27.16b
	fsub v20.4s, v23.4s, v5.4s
	shl v5.4s, v5.4s, #23
	fmla v20.4s, v22.4s, v7.4s
	fmla v19.4s, v16.4s, v18.4s
	fmla v20.4s, v24.4s, v7.4s
	mov v7.16b, v26.16b
	fmul v16.4s, v16.4s, v19.4s
	fmla v6.4s, v16.4s, v6.4s
	fmla v7.4s, v25.4s, v20.4s
	fadd v3.4s, v3.4s, v6.4s
	fmla v17.4s, v20.4s, v7.4s
	mov v7.16b, v28.16b
	fmla v7.4s, v20.4s, v17.4s
	mov v17.16b, v29.16b
	fmla v17.4s, v20.4s, v7.4s
	fmul v7.4s, v20.4s, v17.4s
	fmla v5.4s, v7.4s, v5.4s
	fadd v4.4s, v4.4s, v5.4s
	stp q6, q5, [x12, #32]
	b.ne .L0
