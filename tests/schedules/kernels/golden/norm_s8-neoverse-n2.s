	ldr q7, [x18, x0]
	ldp q17, q18, [x1, #-64]
	tbl v16.16b, { v7.16b }, v3.16b
	scvtf v16.4s, v16.4s, #24
	fsub v16.4s, v16.4s, v5.4s
	fmul v16.4s, v16.4s, v6.s[0]
	fmulx v16.4s, v16.4s, v17.4s
	ldp q17, q19, [x1]
	fadd v16.4s, v17.4s, v16.4s
	dup v17.4s, v7.s[1]
	tbl v17.16b, { v17.16b }, v3.16b
	fcvtns v16.4s, v16.4s
	scvtf v17.4s, v17.4s, #24
	fsub v17.4s, v17.4s, v5.4s
	sqxtn v16.4h, v16.4s
	fmul v17.4s, v17.4s, v6.s[0]
	fmulx v17.4s, v17.4s, v18.4s
	dup v18.2d, v7.d[1]
	dup v7.4s, v7.s[3]
	tbl v18.16b, { v18.16b }, v3.16b
	tbl v7.16b, { v7.16b }, v3.16b
	fadd v17.4s, v19.4s, v17.4s
	scvtf v18.4s, v18.4s, #24
	scvtf v7.4s, v7.4s, #24
	ldp q19, q20, [x1, #-32]
	fcvtns v17.4s, v17.4s
	fsub v18.4s, v18.4s, v5.4s
	fsub v7.4s, v7.4s, v5.4s
	fmul v18.4s, v18.4s, v6.s[0]
	fmul v7.4s, v7.4s, v6.s[0]
	sqxtn2 v16.8h, v17.4s
	fmulx v18.4s, v18.4s, v19.4s
	ldp q19, q21, [x1, #32]
	fmulx v7.4s, v7.4s, v20.4s
	add x1, x1, #128
	sqadd v16.8h, v16.8h, v4.8h
	fadd v7.4s, v21.4s, v7.4s
	sqxtn v16.8b, v16.8h
	fadd v18.4s, v19.4s, v18.4s
	fcvtns v7.4s, v7.4s
	fcvtns v18.4s, v18.4s
	sqxtn v17.4h, v18.4s
	sqxtn2 v17.8h, v7.4s
	sqadd v7.8h, v17.8h, v4.8h
	sqxtn2 v16.16b, v7.8h
	str q16, [x17, x0]
	add x0, x0, #16
	cmp x0, #768
	b.ne .L0
