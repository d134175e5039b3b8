	ldp q0, q1, [x1, #-16]
	ldp q2, q3, [x18, #-32]
	ldp q4, q5, [x17, #-64]
	ldp q6, q7, [x17, #-32]
	sshll v16.8h, v0.8b, #7
	smlal v4.4s, v16.4h, v2.4h
	smlal2 v5.4s, v16.8h, v2.8h
	ldp q2, q16, [x17]
	sshll2 v0.8h, v0.16b, #7
	sshll v17.8h, v1.8b, #7
	smlal v6.4s, v0.4h, v3.4h
	smlal2 v7.4s, v0.8h, v3.8h
	ldp q0, q3, [x18], #64
	smlal v2.4s, v17.4h, v0.4h
	smlal2 v16.4s, v17.8h, v0.8h
	ldp q0, q17, [x17, #32]
	sshll2 v1.8h, v1.16b, #7
	smlal v0.4s, v1.4h, v3.4h
	smlal2 v17.4s, v1.8h, v3.8h
	uzp2 v1.8h, v4.8h, v5.8h
	uzp2 v2.8h, v2.8h, v16.8h
	uzp2 v3.8h, v6.8h, v7.8h
	uzp2 v0.8h, v0.8h, v17.8h
	sqshrn v1.8b, v1.8h, #6
	sqshrn v2.8b, v2.8h, #6
	sqshrn2 v1.16b, v3.8h, #6
	sqshrn2 v2.16b, v0.8h, #6
	subs x2, x2, #1
	add x1, x1, #32
	stp q1, q2, [x0, #-16]
	add x0, x0, #32
	add x17, x17, #128
	b.ne .L0
