	mov v31.16b, v4.16b
	sdot v31.4s, v20.16b, v29.16b
	mov v8.16b, v3.16b
	mov v9.16b, v4.16b
	sdot v8.4s, v21.16b, v30.16b
	sdot v9.4s, v18.16b, v29.16b
	mov v29.16b, v3.16b
	sdot v29.4s, v7.16b, v30.16b
	ldr d1, [x25]
	mov v30.16b, v4.16b
	sdot v30.4s, v20.16b, v28.16b
	ldr d10, [x25, #5376]
	mov v11.16b, v3.16b
	sdot v11.4s, v21.16b, v27.16b
	ldr d12, [x25, #10752]
	ldr d13, [x25, #16128]
	sdot v31.4s, v16.16b, v28.16b
	ldr d14, [x25, #96]
	ldr d15, [x25, #5472]
	sdot v8.4s, v17.16b, v27.16b
	zip1 v1.16b, v1.16b, v10.16b
	zip1 v10.16b, v12.16b, v13.16b
	ldr d12, [x25, #10848]
	ldr d13, [x25, #16224]
	sdot v9.4s, v6.16b, v28.16b
	zip1 v14.16b, v14.16b, v15.16b
	zip1 v12.16b, v12.16b, v13.16b
	mov v13.16b, v4.16b
	sdot v13.4s, v18.16b, v28.16b
	sdot v29.4s, v5.16b, v27.16b
	zip1 v15.8h, v1.8h, v10.8h
	zip2 v1.8h, v1.8h, v10.8h
	zip1 v28.8h, v14.8h, v12.8h
	zip2 v10.8h, v14.8h, v12.8h
	mov v12.16b, v3.16b
	sdot v12.4s, v7.16b, v27.16b
	sdot v31.4s, v24.16b, v15.16b
	sdot v8.4s, v23.16b, v1.16b
	fadd v27.4s, v31.4s, v0.4s
	sdot v9.4s, v22.16b, v15.16b
	fadd v31.4s, v8.4s, v0.4s
	sdot v29.4s, v19.16b, v1.16b
	fadd v8.4s, v9.4s, v0.4s
	sdot v30.4s, v16.16b, v15.16b
	fadd v29.4s, v29.4s, v0.4s
	sdot v11.4s, v17.16b, v1.16b
	sdot v30.4s, v24.16b, v28.16b
	sdot v11.4s, v23.16b, v10.16b
	sdot v13.4s, v6.16b, v15.16b
	fadd v30.4s, v30.4s, v0.4s
	sdot v12.4s, v5.16b, v1.16b
	fadd v9.4s, v11.4s, v0.4s
	sdot v13.4s, v22.16b, v28.16b
	fadd v11.4s, v13.4s, v0.4s
	sdot v12.4s, v19.16b, v10.16b
	fadd v12.4s, v12.4s, v0.4s
	fmulx v27.4s, v27.4s, v25.4s
	fmulx v31.4s, v31.4s, v26.4s
	fmulx v8.4s, v8.4s, v25.4s
	fmulx v30.4s, v30.4s, v25.4s
	fmulx v9.4s, v9.4s, v26.4s
	fmulx v29.4s, v29.4s, v26.4s
	fmulx v11.4s, v11.4s, v25.4s
	fmulx v12.4s, v12.4s, v26.4s
	fadd v9.4s, v9.4s, v2.4s
	fadd v30.4s, v30.4s, v2.4s
	fadd v31.4s, v31.4s, v2.4s
	fadd v27.4s, v27.4s, v2.4s
	fadd v29.4s, v29.4s, v2.4s
	fadd v8.4s, v8.4s, v2.4s
	fadd v12.4s, v12.4s, v2.4s
	fadd v11.4s, v11.4s, v2.4s
	uzp1 v30.8h, v30.8h, v9.8h
	uzp1 v27.8h, v27.8h, v31.8h
	uzp1 v31.8h, v8.8h, v29.8h
	uzp1 v8.8h, v11.8h, v12.8h
	subs x26, x26, #1
	add x25, x25, #192
	sqxtn v30.8b, v30.8h
	mov v29.16b, v15.16b
	str d30, [x24, #192]!
	mov v30.16b, v1.16b
	sqxtn v1.8b, v27.8h
	stur d1, [x24, #-96]
	sqxtn v1.8b, v31.8h
	str d1, [x24, #5280]
	mov v27.16b, v10.16b
	sqxtn v1.8b, v8.8h
	str d1, [x24, #5376]
	b.ne .L0
