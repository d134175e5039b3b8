	add x14, x2, x13
	ldp q6, q7, [x12, #-64]
	add x13, x13, #64
	ldp q2, q3, [x14, #-48]
	cmp x13, #3120
	fsub v3.4s, v3.4s, v0.4s
	ldp q4, q5, [x14, #-16]
	fsub v5.4s, v5.4s, v0.4s
	fsub v2.4s, v2.4s, v0.4s
	fmul v3.4s, v3.4s, v1.s[0]
	fsub v4.4s, v4.4s, v0.4s
	fmul v5.4s, v5.4s, v1.s[0]
	fmul v2.4s, v2.4s, v1.s[0]
	fmul v4.4s, v4.4s, v1.s[0]
	fmla v7.4s, v6.4s, v2.4s
	ldp q2, q6, [x12, #-32]
	fmla v6.4s, v2.4s, v3.4s
	ldp q2, q3, [x12]
	fcvtn v7.4h, v7.4s
	fcvtn v6.4h, v6.4s
	fmla v3.4s, v2.4s, v4.4s
	stp d7, d6, [x11, #-16]
	ldp q2, q4, [x12, #32]
	add x12, x12, #128
	fmla v4.4s, v2.4s, v5.4s
	fcvtn v2.4h, v3.4s
	fcvtn v3.4h, v4.4s
	stp d2, d3, [x11], #32
	b.ne .L0
