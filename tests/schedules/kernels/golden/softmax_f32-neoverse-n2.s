	ldp q23, q24, [x1, #-32]
	mov v25.16b, v2.16b
	mov v27.16b, v6.16b
	mov v28.16b, v17.16b
	subs x2, x2, #1
	fsub v24.4s, v24.4s, v19.4s
	fsub v23.4s, v23.4s, v19.4s
	fmax v24.4s, v24.4s, v0.4s
	fmax v23.4s, v23.4s, v0.4s
	fmla v25.4s, v1.4s, v23.4s
	fsub v26.4s, v2.4s, v25.4s
	shl v25.4s, v25.4s, #23
	fmla v26.4s, v1.4s, v23.4s
	fmla v26.4s, v3.4s, v23.4s
	mov v23.16b, v5.16b
	fmla v23.4s, v4.4s, v26.4s
	fmla v27.4s, v26.4s, v23.4s
	mov v23.16b, v7.16b
	fmla v23.4s, v26.4s, v27.4s
	mov v27.16b, v2.16b
	fmla v27.4s, v1.4s, v24.4s
	fmla v28.4s, v26.4s, v23.4s
	fsub v29.4s, v2.4s, v27.4s
	shl v23.4s, v27.4s, #23
	mov v27.16b, v6.16b
	fmla v29.4s, v1.4s, v24.4s
	fmul v26.4s, v26.4s, v28.4s
	mov v28.16b, v17.16b
	fmla v25.4s, v26.4s, v25.4s
	mov v26.16b, v17.16b
	fmla v29.4s, v3.4s, v24.4s
	mov v24.16b, v5.16b
	fadd v18.4s, v18.4s, v25.4s
	fmla v24.4s, v4.4s, v29.4s
	fmla v27.4s, v29.4s, v24.4s
	mov v24.16b, v7.16b
	fmla v24.4s, v29.4s, v27.4s
	mov v27.16b, v6.16b
	fmla v26.4s, v29.4s, v24.4s
	fmul v24.4s, v29.4s, v26.4s
	fmla v23.4s, v24.4s, v23.4s
	fadd v20.4s, v20.4s, v23.4s
	stp q25, q23, [x0, #-32]
	mov v25.16b, v2.16b
	ldp q23, q24, [x1], #64
	fsub v24.4s, v24.4s, v19.4s
	fsub v23.4s, v23.4s, v19.4s
	fmax v24.4s, v24.4s, v0.4s
	fmax v23.4s, v23.4s, v0.4s
	fmla v25.4s, v1.4s, v23.4s
	fsub v26.4s, v2.4s, v25.4s
	fmla v26.4s, v1.4s, v23.4s
	fmla v26.4s, v3.4s, v23.4s
	mov v23.16b, v5.16b
	fmla v23.4s, v4.4s, v26.4s
	fmla v27.4s, v26.4s, v23.4s
	mov v23.16b, v7.16b
	fmla v23.4s, v26.4s, v27.4s
	mov v27.16b, v2.16b
	fmla v27.4s, v1.4s, v24.4s
	fmla v28.4s, v26.4s, v23.4s
	mov v23.16b, v5.16b
	fsub v29.4s, v2.4s, v27.4s
	fmla v29.4s, v1.4s, v24.4s
	fmul v26.4s, v26.4s, v28.4s
	fmla v29.4s, v3.4s, v24.4s
	mov v24.16b, v6.16b
	fmla v23.4s, v4.4s, v29.4s
	fmla v24.4s, v29.4s, v23.4s
	mov v23.16b, v7.16b
	fmla v23.4s, v29.4s, v24.4s
	shl v24.4s, v25.4s, #23
	mov v25.16b, v17.16b
	fmla v24.4s, v26.4s, v24.4s
	fmla v25.4s, v29.4s, v23.4s
	shl v23.4s, v27.4s, #23
	fadd v21.4s, v21.4s, v24.4s
	fmul v25.4s, v29.4s, v25.4s
	fmla v23.4s, v25.4s, v23.4s
	stp q24, q23, [x0], #64
	fadd v22.4s, v22.4s, v23.4s
	b.ne .L0
