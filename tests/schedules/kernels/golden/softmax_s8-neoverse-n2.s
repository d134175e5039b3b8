	add x13, x2, x12
	add x12, x12, #64
	ldp q2, q3, [x13]
	ldp q4, q5, [x13, #32]
	cmp x12, #3968
	scvtf v3.4s, v3.4s
	scvtf v5.4s, v5.4s
	fmulx v16.4s, v3.4s, v0.4s
	scvtf v2.4s, v2.4s
	scvtf v4.4s, v4.4s
	mov v18.16b, v5.16b
	fmulx v6.4s, v2.4s, v0.4s
	mov v7.16b, v2.16b
	mov v17.16b, v4.16b
	fmla v7.4s, v6.4s, v1.s[0]
	fmla v6.4s, v7.4s, v0.s[0]
	mov v7.16b, v3.16b
	fmla v7.4s, v16.4s, v1.s[0]
	fmla v2.4s, v6.4s, v1.s[0]
	fmla v16.4s, v7.4s, v0.s[0]
	fmulx v7.4s, v4.4s, v0.4s
	fmla v6.4s, v2.4s, v0.s[0]
	fmla v17.4s, v7.4s, v1.s[0]
	fmla v3.4s, v16.4s, v1.s[0]
	fcvtns v2.4s, v6.4s
	fmla v7.4s, v17.4s, v0.s[0]
	fmulx v17.4s, v5.4s, v0.4s
	fmla v16.4s, v3.4s, v0.s[0]
	fmla v18.4s, v17.4s, v1.s[0]
	sqxtn v2.4h, v2.4s
	fmla v4.4s, v7.4s, v1.s[0]
	fcvtns v3.4s, v16.4s
	fmla v17.4s, v18.4s, v0.s[0]
	fmla v7.4s, v4.4s, v0.s[0]
	sqxtn2 v2.8h, v3.4s
	fmla v5.4s, v17.4s, v1.s[0]
	fcvtns v4.4s, v7.4s
	sqadd v2.8h, v2.8h, v21.8h
	fmla v17.4s, v5.4s, v0.s[0]
	sqxtn v2.8b, v2.8h
	sqxtn v4.4h, v4.4s
	fcvtns v3.4s, v17.4s
	sqxtn2 v4.8h, v3.4s
	sqadd v3.8h, v4.8h, v21.8h
	sqxtn2 v2.16b, v3.8h
	str q2, [x9], #16
	b.ne .L0
