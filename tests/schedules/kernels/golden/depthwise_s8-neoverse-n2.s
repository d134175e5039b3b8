	mov v8.16b, v3.16b
	mov v29.16b, v3.16b
	ldr d10, [x25]
	ldr d12, [x25, #10752]
	ldr d13, [x25, #16128]
	mov v9.16b, v4.16b
	mov v0.16b, v3.16b
	ldr d14, [x25, #96]
	subs x26, x26, #1
	mov v11.16b, v3.16b
	sdot v8.4s, v7.16b, v30.16b
	sdot v29.4s, v6.16b, v30.16b
	mov v30.16b, v4.16b
	sdot v9.4s, v16.16b, v31.16b
	sdot v0.4s, v7.16b, v28.16b
	sdot v11.4s, v6.16b, v28.16b
	mov v15.16b, v4.16b
	sdot v15.4s, v16.16b, v27.16b
	sdot v30.4s, v5.16b, v31.16b
	ldr d31, [x25, #5376]
	sdot v8.4s, v19.16b, v28.16b
	sdot v29.4s, v18.16b, v28.16b
	ldr d28, [x25, #5472]
	sdot v9.4s, v20.16b, v27.16b
	zip1 v12.16b, v12.16b, v13.16b
	ldr d13, [x25, #16224]
	sdot v30.4s, v17.16b, v27.16b
	zip1 v31.16b, v10.16b, v31.16b
	ldr d10, [x25, #10848]
	add x25, x25, #192
	zip1 v14.16b, v14.16b, v28.16b
	zip1 v28.8h, v31.8h, v12.8h
	zip2 v31.8h, v31.8h, v12.8h
	mov v12.16b, v4.16b
	sdot v8.4s, v26.16b, v28.16b
	sdot v9.4s, v23.16b, v31.16b
	sdot v0.4s, v19.16b, v28.16b
	sdot v15.4s, v20.16b, v31.16b
	sdot v12.4s, v5.16b, v27.16b
	sdot v29.4s, v22.16b, v28.16b
	sdot v30.4s, v21.16b, v31.16b
	sdot v11.4s, v18.16b, v28.16b
	zip1 v10.16b, v10.16b, v13.16b
	fadd v8.4s, v8.4s, v1.4s
	fadd v9.4s, v9.4s, v1.4s
	fadd v29.4s, v29.4s, v1.4s
	fadd v30.4s, v30.4s, v1.4s
	sdot v12.4s, v17.16b, v31.16b
	zip1 v27.8h, v14.8h, v10.8h
	zip2 v10.8h, v14.8h, v10.8h
	fmulx v8.4s, v8.4s, v24.4s
	fmulx v9.4s, v9.4s, v25.4s
	fmulx v29.4s, v29.4s, v24.4s
	fmulx v30.4s, v30.4s, v25.4s
	sdot v0.4s, v26.16b, v27.16b
	sdot v15.4s, v23.16b, v10.16b
	sdot v11.4s, v22.16b, v27.16b
	sdot v12.4s, v21.16b, v10.16b
	fadd v9.4s, v9.4s, v2.4s
	fadd v8.4s, v8.4s, v2.4s
	fadd v30.4s, v30.4s, v2.4s
	fadd v29.4s, v29.4s, v2.4s
	fadd v0.4s, v0.4s, v1.4s
	uzp1 v8.8h, v8.8h, v9.8h
	fadd v9.4s, v15.4s, v1.4s
	fmulx v0.4s, v0.4s, v24.4s
	fmulx v9.4s, v9.4s, v25.4s
	fadd v0.4s, v0.4s, v2.4s
	fadd v9.4s, v9.4s, v2.4s
	uzp1 v0.8h, v0.8h, v9.8h
	fadd v9.4s, v11.4s, v1.4s
	fadd v11.4s, v12.4s, v1.4s
	sqxtn v0.8b, v0.8h
	fmulx v9.4s, v9.4s, v24.4s
	str d0, [x24, #192]!
	uzp1 v0.8h, v29.8h, v30.8h
	sqxtn v29.8b, v8.8h
	mov v30.16b, v28.16b
	mov v28.16b, v27.16b
	mov v27.16b, v10.16b
	sqxtn v0.8b, v0.8h
	stur d29, [x24, #-96]
	fadd v29.4s, v9.4s, v2.4s
	str d0, [x24, #5280]
	fmulx v0.4s, v11.4s, v25.4s
	fadd v0.4s, v0.4s, v2.4s
	uzp1 v0.8h, v29.8h, v0.8h
	sqxtn v0.8b, v0.8h
	str d0, [x24, #5376]
	b.ne .L0
