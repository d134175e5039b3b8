	ldp q7, q16, [x17, #-32]
	subs x0, x0, #1
	fsub v16.4s, v16.4s, v3.4s
	ldp q5, q6, [x18, #-64]
	fsub v7.4s, v7.4s, v3.4s
	fmul v16.4s, v16.4s, v4.s[0]
	fmul v7.4s, v7.4s, v4.s[0]
	fmla v6.4s, v5.4s, v7.4s
	ldp q5, q7, [x18, #-32]
	fmla v7.4s, v5.4s, v16.4s
	stp q6, q7, [x16, #-32]
	ldp q5, q6, [x17], #64
	ldp q7, q16, [x18]
	fsub v6.4s, v6.4s, v3.4s
	fsub v5.4s, v5.4s, v3.4s
	fmul v6.4s, v6.4s, v4.s[0]
	fmul v5.4s, v5.4s, v4.s[0]
	fmla v16.4s, v7.4s, v5.4s
	ldp q5, q7, [x18, #32]
	add x18, x18, #128
	fmla v7.4s, v5.4s, v6.4s
	stp q16, q7, [x16], #64
	b.ne .L0
