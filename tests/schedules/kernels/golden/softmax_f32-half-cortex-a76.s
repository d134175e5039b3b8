	add x12, x2, x11
	mov v5.16b, v10.16b
	mov v18.16b, v13.16b
	mov v16.16b, v14.16b
	ldp q6, q7, [x12]
	fsub v6.4s, v6.4s, v1.4s
	mov v17.16b, v15.16b
	fsub v19.4s, v7.4s, v1.4s
	mov v7.16b, v21.16b
	fmax v23.4s, v6.4s, v31.4s
	fmax v24.4s, v19.4s, v31.4s
	fmla v5.4s, v9.4s, v23.4s
	mov v6.16b, v10.16b
	mov v25.16b, v13.16b
	fmla v6.4s, v9.4s, v24.4s
	mov v22.16b, v14.16b
	fsub v19.4s, v10.4s, v5.4s
	mov v21.16b, v15.16b
	fsub v20.4s, v10.4s, v6.4s
	ldp q26, q27, [x12, #32]
	fmla v19.4s, v9.4s, v23.4s
	fsub v26.4s, v26.4s, v1.4s
	fmla v20.4s, v9.4s, v24.4s
	fmax v26.4s, v26.4s, v31.4s
	fmla v19.4s, v11.4s, v23.4s
	mov v23.16b, v10.16b
	fmla v23.4s, v9.4s, v26.4s
	fmla v20.4s, v11.4s, v24.4s
	fsub v24.4s, v10.4s, v23.4s
	fmla v18.4s, v12.4s, v19.4s
	ldr q28, [sp, #128]
	fmla v24.4s, v9.4s, v26.4s
	fmla v25.4s, v12.4s, v20.4s
	fmla v24.4s, v11.4s, v26.4s
	mov v26.16b, v13.16b
	fmla v26.4s, v12.4s, v24.4s
	mov v29.16b, v14.16b
	mov v30.16b, v15.16b
	fmla v16.4s, v19.4s, v18.4s
	fsub v18.4s, v27.4s, v1.4s
	fmla v22.4s, v20.4s, v25.4s
	fmax v18.4s, v18.4s, v31.4s
	fmla v29.4s, v24.4s, v26.4s
	mov v25.16b, v10.16b
	fmla v25.4s, v9.4s, v18.4s
	fmla v17.4s, v19.4s, v16.4s
	fsub v16.4s, v10.4s, v25.4s
	fmla v21.4s, v20.4s, v22.4s
	ldr q22, [sp, #128]
	fmla v16.4s, v9.4s, v18.4s
	fmla v30.4s, v24.4s, v29.4s
	fmla v16.4s, v11.4s, v18.4s
	mov v18.16b, v13.16b
	fmla v7.4s, v19.4s, v17.4s
	fmla v18.4s, v12.4s, v16.4s
	mov v17.16b, v14.16b
	fmla v28.4s, v20.4s, v21.4s
	ldr q21, [sp, #128]
	fmla v17.4s, v16.4s, v18.4s
	mov v18.16b, v15.16b
	fmla v22.4s, v24.4s, v30.4s
	fmla v18.4s, v16.4s, v17.4s
	fmul v7.4s, v19.4s, v7.4s
	mov v17.16b, v21.16b
	fmul v19.4s, v20.4s, v28.4s
	fmla v17.4s, v16.4s, v18.4s
	fmul v18.4s, v24.4s, v22.4s
	fmul v16.4s, v16.4s, v17.4s
	shl v5.4s, v5.4s, #23
	fmla v5.4s, v7.4s, v5.4s
	shl v6.4s, v6.4s, #23
	fmla v6.4s, v19.4s, v6.4s
	shl v7.4s, v23.4s, #23
	fadd v0.4s, v0.4s, v5.4s
	fmla v7.4s, v18.4s, v7.4s
	fadd v2.4s, v2.4s, v6.4s
	shl v17.4s, v25.4s, #23
	fadd v3.4s, v3.4s, v7.4s
	fmla v17.4s, v16.4s, v17.4s
	fadd v4.4s, v4.4s, v17.4s
	stp q5, q6, [x12]
	stp q7, q17, [x12, #32]
	add x11, x11, #64
	cmp x11, #3072
	b.ne .L0
