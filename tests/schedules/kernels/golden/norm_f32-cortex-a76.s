	ldp q5, q6, [x17, #-32]
	fsub v5.4s, v5.4s, v3.4s
	fsub v6.4s, v6.4s, v3.4s
	ldp q7, q16, [x17], #64
	fsub v7.4s, v7.4s, v3.4s
	fsub v16.4s, v16.4s, v3.4s
	fmul v5.4s, v5.4s, v4.s[0]
	fmul v6.4s, v6.4s, v4.s[0]
	ldp q17, q18, [x18, #-64]
	fmla v18.4s, v17.4s, v5.4s
	ldp q5, q17, [x18, #-32]
	fmla v17.4s, v5.4s, v6.4s
	ldp q5, q6, [x18]
	fmul v7.4s, v7.4s, v4.s[0]
	fmla v6.4s, v5.4s, v7.4s
	stp q18, q17, [x16, #-32]
	ldp q5, q7, [x18, #32]
	fmul v16.4s, v16.4s, v4.s[0]
	fmla v7.4s, v5.4s, v16.4s
	subs x0, x0, #1
	add x18, x18, #128
	stp q6, q7, [x16], #64
	b.ne .L0
