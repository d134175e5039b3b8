	add x13, x2, x12
	ldp q2, q3, [x13]
	ldp q4, q5, [x13, #32]
	scvtf v2.4s, v2.4s
	fmulx v6.4s, v2.4s, v0.4s
	scvtf v3.4s, v3.4s
	mov v7.16b, v2.16b
	fmulx v16.4s, v3.4s, v0.4s
	mov v17.16b, v3.16b
	scvtf v4.4s, v4.4s
	fmla v7.4s, v6.4s, v1.s[0]
	fmulx v18.4s, v4.4s, v0.4s
	fmla v17.4s, v16.4s, v1.s[0]
	mov v19.16b, v4.16b
	fmla v19.4s, v18.4s, v1.s[0]
	fmla v6.4s, v7.4s, v0.s[0]
	scvtf v5.4s, v5.4s
	fmla v16.4s, v17.4s, v0.s[0]
	fmulx v7.4s, v5.4s, v0.4s
	fmla v2.4s, v6.4s, v1.s[0]
	fmla v18.4s, v19.4s, v0.s[0]
	mov v17.16b, v5.16b
	fmla v3.4s, v16.4s, v1.s[0]
	fmla v17.4s, v7.4s, v1.s[0]
	fmla v7.4s, v17.4s, v0.s[0]
	fmla v4.4s, v18.4s, v1.s[0]
	fmla v6.4s, v2.4s, v0.s[0]
	fcvtns v2.4s, v6.4s
	fmla v16.4s, v3.4s, v0.s[0]
	fcvtns v3.4s, v16.4s
	fmla v5.4s, v7.4s, v1.s[0]
	fmla v18.4s, v4.4s, v0.s[0]
	sqxtn v2.4h, v2.4s
	fcvtns v4.4s, v18.4s
	sqxtn2 v2.8h, v3.4s
	sqxtn v3.4h, v4.4s
	fmla v7.4s, v5.4s, v0.s[0]
	sqadd v2.8h, v2.8h, v22.8h
	fcvtns v4.4s, v7.4s
	sqxtn v2.8b, v2.8h
	sqxtn2 v3.8h, v4.4s
	sqadd v3.8h, v3.8h, v22.8h
	sqxtn2 v2.16b, v3.8h
	add x12, x12, #64
	cmp x12, #3968
	str q2, [x10], #16
	b.ne .L0
