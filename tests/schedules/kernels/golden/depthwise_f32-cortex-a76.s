	ldr q0, [x10, x22]
	add x24, x21, x22
	ldr q2, [x24]
	ldr q17, [x24, #384]
	mov v1.16b, v0.16b
	ldp q26, q27, [x23, #-64]
	fmla v1.4s, v26.4s, v2.4s
	mov v2.16b, v0.16b
	ldr q18, [x24, #768]
	fmla v2.4s, v26.4s, v17.4s
	mov v3.16b, v0.16b
	ldr q19, [x24, #1152]
	fmla v3.4s, v26.4s, v18.4s
	mov v4.16b, v0.16b
	ldr q20, [x24, #1536]
	fmla v4.4s, v26.4s, v19.4s
	mov v5.16b, v0.16b
	ldr q21, [x24, #1920]
	fmla v5.4s, v26.4s, v20.4s
	mov v6.16b, v0.16b
	ldr q22, [x24, #2304]
	fmla v6.4s, v26.4s, v21.4s
	mov v7.16b, v0.16b
	ldr q23, [x24, #2688]
	fmla v7.4s, v26.4s, v22.4s
	mov v16.16b, v0.16b
	fmla v16.4s, v26.4s, v23.4s
	fmla v1.4s, v27.4s, v17.4s
	fmla v2.4s, v27.4s, v18.4s
	fmla v3.4s, v27.4s, v19.4s
	fmla v4.4s, v27.4s, v20.4s
	fmla v5.4s, v27.4s, v21.4s
	fmla v6.4s, v27.4s, v22.4s
	fmla v7.4s, v27.4s, v23.4s
	ldr q17, [x24, #3072]
	ldp q28, q24, [x23, #-32]
	fmla v16.4s, v27.4s, v17.4s
	fmla v1.4s, v28.4s, v18.4s
	fmla v2.4s, v28.4s, v19.4s
	fmla v3.4s, v28.4s, v20.4s
	fmla v4.4s, v28.4s, v21.4s
	fmla v5.4s, v28.4s, v22.4s
	ldr q19, [x24, #3456]
	ldr q18, [x24, #21504]
	fmla v6.4s, v28.4s, v23.4s
	ldr q12, [x24, #21888]
	ldr q11, [x24, #22272]
	fmla v7.4s, v28.4s, v17.4s
	ldr q10, [x24, #22656]
	ldr q9, [x24, #23040]
	fmla v16.4s, v28.4s, v19.4s
	ldr q8, [x24, #23424]
	ldr q30, [x24, #23808]
	fmla v1.4s, v24.4s, v18.4s
	ldr q29, [x24, #24192]
	ldr q14, [x24, #24576]
	fmla v2.4s, v24.4s, v12.4s
	ldp q31, q25, [x23]
	fmla v3.4s, v24.4s, v11.4s
	mov v17.16b, v0.16b
	ldr q13, [x24, #24960]
	fmla v4.4s, v24.4s, v10.4s
	fmla v17.4s, v26.4s, v18.4s
	mov v18.16b, v0.16b
	fmla v5.4s, v24.4s, v9.4s
	fmla v18.4s, v26.4s, v12.4s
	mov v19.16b, v0.16b
	fmla v6.4s, v24.4s, v8.4s
	fmla v19.4s, v26.4s, v11.4s
	mov v20.16b, v0.16b
	fmla v7.4s, v24.4s, v30.4s
	fmla v20.4s, v26.4s, v10.4s
	mov v21.16b, v0.16b
	fmla v16.4s, v24.4s, v29.4s
	fmla v21.4s, v26.4s, v9.4s
	mov v22.16b, v0.16b
	fmla v1.4s, v31.4s, v12.4s
	fmla v22.4s, v26.4s, v8.4s
	mov v23.16b, v0.16b
	fmla v2.4s, v31.4s, v11.4s
	fmla v23.4s, v26.4s, v30.4s
	fmla v0.4s, v26.4s, v29.4s
	fmla v3.4s, v31.4s, v10.4s
	fmla v17.4s, v27.4s, v12.4s
	fmla v18.4s, v27.4s, v11.4s
	fmla v4.4s, v31.4s, v9.4s
	fmla v19.4s, v27.4s, v10.4s
	fmla v20.4s, v27.4s, v9.4s
	fmla v5.4s, v31.4s, v8.4s
	fmla v21.4s, v27.4s, v8.4s
	fmla v22.4s, v27.4s, v30.4s
	fmla v6.4s, v31.4s, v30.4s
	fmla v23.4s, v27.4s, v29.4s
	fmla v0.4s, v27.4s, v14.4s
	fmla v7.4s, v31.4s, v29.4s
	fmla v17.4s, v28.4s, v11.4s
	fmla v18.4s, v28.4s, v10.4s
	fmla v16.4s, v31.4s, v14.4s
	fmla v19.4s, v28.4s, v9.4s
	fmla v20.4s, v28.4s, v8.4s
	fmla v1.4s, v25.4s, v11.4s
	fmla v21.4s, v28.4s, v30.4s
	fmla v22.4s, v28.4s, v29.4s
	fmla v2.4s, v25.4s, v10.4s
	fmla v23.4s, v28.4s, v14.4s
	fmla v0.4s, v28.4s, v13.4s
	mov v27.16b, v13.16b
	fmla v3.4s, v25.4s, v9.4s
	ldr q9, [x24, #43008]
	ldr q15, [x24, #43392]
	fmla v4.4s, v25.4s, v8.4s
	ldr q13, [x24, #43776]
	ldr q12, [x24, #44160]
	fmla v5.4s, v25.4s, v30.4s
	ldr q11, [x24, #44544]
	ldr q10, [x24, #44928]
	fmla v6.4s, v25.4s, v29.4s
	ldr q8, [x24, #45312]
	ldr q28, [x24, #45696]
	fmla v7.4s, v25.4s, v14.4s
	ldp q29, q26, [x23, #32]
	fmla v16.4s, v25.4s, v27.4s
	ldr q27, [x24, #46080]
	ldr q30, [x23, #64]
	ldr q14, [x24, #46464]
	str q14, [sp]
	fmla v17.4s, v24.4s, v9.4s
	fmla v18.4s, v24.4s, v15.4s
	fmla v19.4s, v24.4s, v13.4s
	fmla v20.4s, v24.4s, v12.4s
	fmla v21.4s, v24.4s, v11.4s
	fmla v1.4s, v29.4s, v9.4s
	fmla v22.4s, v24.4s, v10.4s
	fmla v23.4s, v24.4s, v8.4s
	fmla v2.4s, v29.4s, v15.4s
	fmla v0.4s, v24.4s, v28.4s
	fmla v17.4s, v31.4s, v15.4s
	fmla v3.4s, v29.4s, v13.4s
	fmla v18.4s, v31.4s, v13.4s
	fmla v19.4s, v31.4s, v12.4s
	fmla v4.4s, v29.4s, v12.4s
	fmla v20.4s, v31.4s, v11.4s
	fmla v21.4s, v31.4s, v10.4s
	fmla v5.4s, v29.4s, v11.4s
	fmla v22.4s, v31.4s, v8.4s
	fmla v23.4s, v31.4s, v28.4s
	fmla v6.4s, v29.4s, v10.4s
	fmla v0.4s, v31.4s, v27.4s
	fmla v17.4s, v25.4s, v13.4s
	fmla v1.4s, v26.4s, v15.4s
	fmla v18.4s, v25.4s, v12.4s
	fmla v19.4s, v25.4s, v11.4s
	fmla v2.4s, v26.4s, v13.4s
	fmla v20.4s, v25.4s, v10.4s
	fmla v21.4s, v25.4s, v8.4s
	fmla v3.4s, v26.4s, v12.4s
	fmla v22.4s, v25.4s, v28.4s
	fmla v23.4s, v25.4s, v27.4s
	fmla v4.4s, v26.4s, v11.4s
	fmla v0.4s, v25.4s, v14.4s
	ldr q15, [x24, #64512]
	fmla v5.4s, v26.4s, v10.4s
	ldr q14, [x24, #64896]
	ldr q24, [x24, #65280]
	fmla v1.4s, v30.4s, v13.4s
	add x24, x20, x22
	ldr q25, [x24, #46848]
	fmla v2.4s, v30.4s, v12.4s
	ldr q31, [x24, #47232]
	ldr q12, [x24, #47616]
	fmla v3.4s, v30.4s, v11.4s
	ldr q11, [x24, #48000]
	ldr q13, [x24, #48384]
	fmla v4.4s, v30.4s, v10.4s
	add x25, x19, x22
	add x22, x22, #16
	ldr q9, [x24, #48768]
	add x23, x23, #144
	fmla v17.4s, v29.4s, v15.4s
	ldr q10, [x24, #49152]
	cmp x22, #384
	fmla v7.4s, v29.4s, v8.4s
	fmla v16.4s, v29.4s, v28.4s
	fmla v18.4s, v29.4s, v14.4s
	fmla v19.4s, v29.4s, v24.4s
	fmla v6.4s, v26.4s, v8.4s
	fmla v20.4s, v29.4s, v25.4s
	fmla v21.4s, v29.4s, v31.4s
	fmla v7.4s, v26.4s, v28.4s
	fmla v22.4s, v29.4s, v12.4s
	fmla v23.4s, v29.4s, v11.4s
	fmla v16.4s, v26.4s, v27.4s
	fmla v0.4s, v29.4s, v13.4s
	fmla v17.4s, v26.4s, v14.4s
	fmla v5.4s, v30.4s, v8.4s
	fmla v18.4s, v26.4s, v24.4s
	fmla v19.4s, v26.4s, v25.4s
	fmla v6.4s, v30.4s, v28.4s
	fmla v20.4s, v26.4s, v31.4s
	fmla v21.4s, v26.4s, v12.4s
	fmla v7.4s, v30.4s, v27.4s
	fmla v22.4s, v26.4s, v11.4s
	fmla v23.4s, v26.4s, v13.4s
	ldr q27, [sp]
	fmla v16.4s, v30.4s, v27.4s
	fmla v0.4s, v26.4s, v9.4s
	fmla v17.4s, v30.4s, v24.4s
	fmla v18.4s, v30.4s, v25.4s
	fmla v19.4s, v30.4s, v31.4s
	fmla v20.4s, v30.4s, v12.4s
	fmla v21.4s, v30.4s, v11.4s
	fmla v22.4s, v30.4s, v13.4s
	fmla v0.4s, v30.4s, v10.4s
	fmla v23.4s, v30.4s, v9.4s
	str q0, [x25, #27264]
	str q1, [x25, #3072]
	str q2, [x25, #3456]
	str q3, [x25, #3840]
	str q4, [x25, #4224]
	str q5, [x25, #4608]
	str q6, [x25, #4992]
	str q7, [x25, #5376]
	str q16, [x25, #5760]
	str q17, [x25, #24576]
	str q18, [x25, #24960]
	str q19, [x25, #25344]
	str q20, [x25, #25728]
	str q21, [x25, #26112]
	str q22, [x25, #26496]
	str q23, [x25, #26880]
	b.ne .L0
