	add x14, x2, x13
	ldp q2, q3, [x14, #-48]
	fsub v2.4s, v2.4s, v0.4s
	fsub v3.4s, v3.4s, v0.4s
	ldp q4, q5, [x14, #-16]
	fsub v4.4s, v4.4s, v0.4s
	fsub v5.4s, v5.4s, v0.4s
	fmul v2.4s, v2.4s, v1.s[0]
	fmul v3.4s, v3.4s, v1.s[0]
	ldp q6, q7, [x12, #-64]
	fmla v7.4s, v6.4s, v2.4s
	ldp q2, q6, [x12, #-32]
	fmla v6.4s, v2.4s, v3.4s
	ldp q2, q3, [x12]
	fmul v4.4s, v4.4s, v1.s[0]
	fmla v3.4s, v2.4s, v4.4s
	ldp q2, q4, [x12, #32]
	fmul v5.4s, v5.4s, v1.s[0]
	fmla v4.4s, v2.4s, v5.4s
	fcvtn v2.4h, v7.4s
	fcvtn v5.4h, v6.4s
	fcvtn v3.4h, v3.4s
	fcvtn v4.4h, v4.4s
	add x13, x13, #64
	stp d2, d5, [x11, #-16]
	stp d3, d4, [x11], #32
	add x12, x12, #128
	cmp x13, #3120
	b.ne .L0
