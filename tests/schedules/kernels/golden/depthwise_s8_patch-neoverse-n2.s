	add x4, x18, x17, lsl #3
	add x1, x15, x17, lsl #3
	mov w24, #34560
	mov w28, #63744
	ldr d2, [x4]
	ldr d3, [x4, #5760]
	ldr d4, [x4, #11520]
	ldr d5, [x4, #17280]
	ldr d6, [x4, #17376]
	add x3, x7, x1, lsl #2
	ldr d18, [x4, #5952]
	ldr d29, [x4, #11904]
	ldr d30, [x4, #17664]
	add x1, x21, x1, lsl #2
	mov w30, #37632
	zip1 v2.16b, v2.16b, v3.16b
	zip1 v3.16b, v4.16b, v5.16b
	ldr d4, [x4, #96]
	ldr d5, [x4, #5856]
	zip1 v19.8h, v2.8h, v3.8h
	zip2 v24.8h, v2.8h, v3.8h
	ldp q3, q2, [x3]
	mov w3, #2560
	madd x3, x17, x3, x16
	ldp q16, q17, [x3, #32]
	zip1 v4.16b, v4.16b, v5.16b
	ldr d5, [x4, #11616]
	mov v7.16b, v2.16b
	ldp q26, q27, [x3, #96]
	ldp q31, q8, [x3, #448]
	zip1 v5.16b, v5.16b, v6.16b
	zip1 v23.8h, v4.8h, v5.8h
	zip2 v20.8h, v4.8h, v5.8h
	ldp q5, q6, [x3]
	mov v4.16b, v3.16b
	ldp q9, q10, [x3, #544]
	sdot v7.4s, v6.16b, v24.16b
	mov v6.16b, v2.16b
	ldp q14, q15, [x3, #672]
	sdot v4.4s, v5.16b, v19.16b
	mov v5.16b, v3.16b
	sdot v6.4s, v17.16b, v24.16b
	ldp q17, q21, [x3, #64]
	sdot v5.4s, v16.16b, v19.16b
	ldr d16, [x4, #192]
	zip1 v22.16b, v16.16b, v18.16b
	mov v16.16b, v3.16b
	ldr d18, [x4, #17472]
	sdot v16.4s, v17.16b, v19.16b
	ldr d17, [x4, #11712]
	zip1 v25.16b, v17.16b, v18.16b
	mov v18.16b, v2.16b
	mov v17.16b, v3.16b
	sdot v18.4s, v21.16b, v24.16b
	zip1 v21.8h, v22.8h, v25.8h
	sdot v17.4s, v26.16b, v19.16b
	zip2 v22.8h, v22.8h, v25.8h
	mov v19.16b, v2.16b
	sdot v19.4s, v27.16b, v24.16b
	ldp q25, q26, [x3, #128]
	ldr d27, [x4, #6048]
	sdot v7.4s, v26.16b, v20.16b
	ldr d26, [x4, #288]
	sdot v4.4s, v25.16b, v23.16b
	ldp q24, q25, [x3, #160]
	sdot v6.4s, v25.16b, v20.16b
	sdot v5.4s, v24.16b, v23.16b
	ldp q24, q25, [x3, #192]
	sdot v18.4s, v25.16b, v20.16b
	sdot v16.4s, v24.16b, v23.16b
	ldp q24, q25, [x3, #224]
	sdot v19.4s, v25.16b, v20.16b
	sdot v17.4s, v24.16b, v23.16b
	zip1 v24.16b, v26.16b, v27.16b
	ldr d23, [x4, #11808]
	ldr d26, [x4, #17568]
	ldp q27, q28, [x3, #320]
	sdot v18.4s, v28.16b, v22.16b
	zip1 v26.16b, v23.16b, v26.16b
	sdot v16.4s, v27.16b, v21.16b
	ldr d27, [x4, #6144]
	zip1 v23.8h, v24.8h, v26.8h
	zip2 v20.8h, v24.8h, v26.8h
	sdot v18.4s, v8.16b, v20.16b
	ldp q24, q25, [x3, #256]
	sdot v16.4s, v31.16b, v23.16b
	sdot v7.4s, v25.16b, v22.16b
	ldp q31, q8, [x3, #608]
	sdot v4.4s, v24.16b, v21.16b
	ldp q24, q26, [x3, #288]
	sdot v6.4s, v26.16b, v22.16b
	ldr d26, [x4, #384]
	sdot v5.4s, v24.16b, v21.16b
	ldp q24, q25, [x3, #352]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v29.16b, v30.16b
	ldp q28, q29, [x3, #384]
	sdot v19.4s, v25.16b, v22.16b
	sdot v17.4s, v24.16b, v21.16b
	ldp q21, q30, [x3, #416]
	zip1 v24.8h, v26.8h, v27.8h
	zip2 v22.8h, v26.8h, v27.8h
	ldp q25, q26, [x3, #480]
	sdot v7.4s, v29.16b, v20.16b
	sdot v6.4s, v30.16b, v20.16b
	sdot v19.4s, v26.16b, v20.16b
	ldr d20, [x4, #23040]
	sdot v4.4s, v28.16b, v23.16b
	ldr d26, [x4, #28896]
	ldp q27, q28, [x3, #512]
	sdot v5.4s, v21.16b, v23.16b
	ldr d21, [x4, #28800]
	sdot v17.4s, v25.16b, v23.16b
	ldr d25, [x4, x24]
	mov w24, #40320
	sdot v6.4s, v10.16b, v22.16b
	sdot v19.4s, v8.16b, v22.16b
	ldp q29, q30, [x3, #576]
	sdot v7.4s, v28.16b, v22.16b
	sdot v18.4s, v30.16b, v22.16b
	ldr d22, [x4, #23136]
	ldp q11, q23, [x3, #640]
	sdot v5.4s, v9.16b, v24.16b
	sdot v17.4s, v31.16b, v24.16b
	ldp q31, q9, [x3, #800]
	sdot v4.4s, v27.16b, v24.16b
	sdot v16.4s, v29.16b, v24.16b
	ldp q24, q30, [x3, #768]
	zip1 v12.16b, v20.16b, v21.16b
	ldr d20, [x4, x24]
	mov w24, #34656
	ldp q29, q28, [x3, #736]
	zip1 v26.16b, v22.16b, v26.16b
	ldr d22, [x4, x24]
	mov w24, #40416
	ldr d27, [x4, x24]
	mov w24, #34752
	zip1 v13.16b, v25.16b, v20.16b
	ldp q20, q21, [x3, #704]
	zip2 v8.8h, v12.8h, v13.8h
	zip1 v25.8h, v12.8h, v13.8h
	zip1 v27.16b, v22.16b, v27.16b
	mov v22.16b, v3.16b
	sdot v7.4s, v23.16b, v8.16b
	mov v23.16b, v2.16b
	sdot v4.4s, v11.16b, v25.16b
	ldp q10, q11, [x3, #832]
	sdot v18.4s, v21.16b, v8.16b
	mov v21.16b, v3.16b
	sdot v5.4s, v14.16b, v25.16b
	sdot v17.4s, v29.16b, v25.16b
	sdot v6.4s, v15.16b, v8.16b
	sdot v19.4s, v28.16b, v8.16b
	sdot v22.4s, v24.16b, v25.16b
	mov v24.16b, v2.16b
	sdot v23.4s, v30.16b, v8.16b
	sdot v16.4s, v20.16b, v25.16b
	mov v20.16b, v3.16b
	ldp q30, q12, [x3, #864]
	sdot v24.4s, v9.16b, v8.16b
	sdot v20.4s, v31.16b, v25.16b
	zip1 v31.8h, v26.8h, v27.8h
	ldp q9, q29, [x3, #896]
	sdot v21.4s, v10.16b, v25.16b
	sdot v3.4s, v30.16b, v25.16b
	ldp q10, q30, [x3, #928]
	mov v25.16b, v2.16b
	sdot v2.4s, v12.16b, v8.16b
	ldr q12, [x3, #1152]
	sdot v4.4s, v9.16b, v31.16b
	sdot v25.4s, v11.16b, v8.16b
	sdot v5.4s, v10.16b, v31.16b
	ldr q10, [x3, #1024]
	ldp q9, q8, [x3, #992]
	sdot v17.4s, v9.16b, v31.16b
	ldp q11, q28, [x3, #960]
	ldr q9, [x3, #1120]
	sdot v16.4s, v11.16b, v31.16b
	zip2 v11.8h, v26.8h, v27.8h
	ldr d27, [x4, x24]
	mov w24, #40512
	sdot v18.4s, v28.16b, v11.16b
	sdot v6.4s, v30.16b, v11.16b
	ldr q30, [x3, #1136]
	sdot v7.4s, v29.16b, v11.16b
	sdot v19.4s, v8.16b, v11.16b
	ldr q29, [x3, #1168]
	ldr q8, [x3, #1264]
	sdot v22.4s, v10.16b, v31.16b
	ldr q10, [x3, #1056]
	sdot v3.4s, v9.16b, v31.16b
	ldr d9, [x4, #28992]
	sdot v2.4s, v30.16b, v11.16b
	ldr q30, [x3, #1200]
	sdot v20.4s, v10.16b, v31.16b
	ldr q10, [x3, #1088]
	sdot v21.4s, v10.16b, v31.16b
	ldr d31, [x4, #23232]
	ldr q10, [x3, #1040]
	zip1 v26.16b, v31.16b, v9.16b
	ldr q9, [x3, #1104]
	ldr d31, [x4, x24]
	sdot v23.4s, v10.16b, v11.16b
	ldr q10, [x3, #1216]
	mov w24, #34848
	sdot v25.4s, v9.16b, v11.16b
	ldr q9, [x3, #1184]
	zip1 v27.16b, v27.16b, v31.16b
	ldr q31, [x3, #1072]
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	sdot v16.4s, v10.16b, v28.16b
	ldr q10, [x3, #1376]
	sdot v4.4s, v12.16b, v28.16b
	sdot v7.4s, v29.16b, v26.16b
	ldr q29, [x3, #1360]
	sdot v6.4s, v30.16b, v26.16b
	ldr q30, [x3, #1392]
	sdot v19.4s, v8.16b, v26.16b
	sdot v5.4s, v9.16b, v28.16b
	ldr q9, [x3, #1280]
	sdot v24.4s, v31.16b, v11.16b
	ldr q11, [x3, #1248]
	ldr q31, [x3, #1232]
	sdot v3.4s, v10.16b, v28.16b
	ldr d10, [x4, #29088]
	sdot v25.4s, v29.16b, v26.16b
	sdot v2.4s, v30.16b, v26.16b
	ldr d29, [x4, #23424]
	ldr d30, [x4, #29184]
	sdot v22.4s, v9.16b, v28.16b
	ldr q9, [x3, #1312]
	sdot v17.4s, v11.16b, v28.16b
	ldr d11, [x4, x24]
	mov w24, #40608
	sdot v18.4s, v31.16b, v26.16b
	ldr q31, [x3, #1408]
	zip1 v29.16b, v29.16b, v30.16b
	sdot v20.4s, v9.16b, v28.16b
	ldr q9, [x3, #1344]
	sdot v21.4s, v9.16b, v28.16b
	ldr d28, [x4, #23328]
	ldr q9, [x3, #1296]
	zip1 v27.16b, v28.16b, v10.16b
	ldr q10, [x3, #1328]
	ldr d28, [x4, x24]
	mov w24, #34944
	sdot v23.4s, v9.16b, v26.16b
	ldr q9, [x3, #1440]
	sdot v24.4s, v10.16b, v26.16b
	ldr d26, [x4, x24]
	mov w24, #40704
	zip1 v28.16b, v11.16b, v28.16b
	ldr q10, [x3, #1472]
	ldr d8, [x4, x24]
	mov w24, #46080
	zip1 v30.16b, v26.16b, v8.16b
	zip1 v26.8h, v27.8h, v28.8h
	ldr q8, [x3, #1504]
	zip2 v28.8h, v27.8h, v28.8h
	sdot v4.4s, v31.16b, v26.16b
	ldr q31, [x3, #1536]
	sdot v5.4s, v9.16b, v26.16b
	ldr q9, [x3, #1568]
	sdot v16.4s, v10.16b, v26.16b
	zip2 v27.8h, v29.8h, v30.8h
	ldr q10, [x3, #1792]
	sdot v17.4s, v8.16b, v26.16b
	ldr d8, [x4, x12]
	sdot v22.4s, v31.16b, v26.16b
	ldr q31, [x3, #1600]
	sdot v20.4s, v9.16b, v26.16b
	ldr q9, [x3, #1632]
	sdot v21.4s, v31.16b, v26.16b
	sdot v3.4s, v9.16b, v26.16b
	ldr d31, [x4, x24]
	ldr d26, [x4, x11]
	ldr d9, [x4, x6]
	zip1 v31.16b, v31.16b, v26.16b
	zip1 v26.8h, v29.8h, v30.8h
	ldr q29, [x3, #1424]
	zip1 v8.16b, v8.16b, v9.16b
	ldr q9, [x3, #1824]
	zip2 v30.8h, v31.8h, v8.8h
	sdot v22.4s, v10.16b, v26.16b
	ldr q10, [x3, #1856]
	sdot v7.4s, v29.16b, v28.16b
	ldr q29, [x3, #1456]
	sdot v20.4s, v9.16b, v26.16b
	ldr q9, [x3, #1888]
	sdot v21.4s, v10.16b, v26.16b
	ldr q10, [x3, #1920]
	sdot v6.4s, v29.16b, v28.16b
	ldr q29, [x3, #1488]
	sdot v3.4s, v9.16b, v26.16b
	zip1 v9.8h, v31.8h, v8.8h
	ldr q31, [x3, #1872]
	sdot v22.4s, v10.16b, v9.16b
	ldr q10, [x3, #1952]
	sdot v18.4s, v29.16b, v28.16b
	ldr q29, [x3, #1552]
	sdot v20.4s, v10.16b, v9.16b
	ldr q10, [x3, #1984]
	sdot v23.4s, v29.16b, v28.16b
	ldr q29, [x3, #1584]
	sdot v21.4s, v10.16b, v9.16b
	ldr q10, [x3, #2016]
	sdot v24.4s, v29.16b, v28.16b
	ldr q29, [x3, #1616]
	sdot v3.4s, v10.16b, v9.16b
	sdot v25.4s, v29.16b, v28.16b
	ldr q29, [x3, #1648]
	sdot v25.4s, v31.16b, v27.16b
	ldr q31, [x3, #1968]
	sdot v2.4s, v29.16b, v28.16b
	ldr q29, [x3, #1520]
	sdot v19.4s, v29.16b, v28.16b
	ldr q28, [x3, #1808]
	ldr q29, [x3, #1840]
	sdot v23.4s, v28.16b, v27.16b
	ldr q28, [x3, #1904]
	sdot v24.4s, v29.16b, v27.16b
	ldr q29, [x3, #1936]
	sdot v24.4s, v31.16b, v30.16b
	ldr d31, [x4, x19]
	sdot v2.4s, v28.16b, v27.16b
	ldr q28, [x3, #2000]
	sdot v23.4s, v29.16b, v30.16b
	ldr q29, [x3, #2032]
	sdot v25.4s, v28.16b, v30.16b
	ldr d28, [x4, x20]
	sdot v2.4s, v29.16b, v30.16b
	ldr d30, [x4, x2]
	ldr q29, [x3, #2048]
	zip1 v28.16b, v31.16b, v28.16b
	ldr d31, [x4, x10]
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v31.8h, v28.8h, v30.8h
	zip2 v28.8h, v28.8h, v30.8h
	ldr q30, [x3, #2128]
	sdot v22.4s, v29.16b, v31.16b
	ldr q29, [x3, #2080]
	sdot v25.4s, v30.16b, v28.16b
	ldr d30, [x4, x14]
	sdot v20.4s, v29.16b, v31.16b
	ldr q29, [x3, #2112]
	sdot v21.4s, v29.16b, v31.16b
	ldr q29, [x3, #2144]
	sdot v3.4s, v29.16b, v31.16b
	ldr q29, [x3, #2064]
	ldr q31, [x3, #2096]
	sdot v23.4s, v29.16b, v28.16b
	ldr d29, [x4, x13]
	sdot v24.4s, v31.16b, v28.16b
	ldr q31, [x3, #2160]
	sdot v2.4s, v31.16b, v28.16b
	ldr d28, [x4, x5]
	zip1 v29.16b, v29.16b, v30.16b
	ldr d30, [x4, x22]
	ldr q31, [x3, #2176]
	zip1 v28.16b, v28.16b, v30.16b
	zip1 v30.8h, v29.8h, v28.8h
	zip2 v28.8h, v29.8h, v28.8h
	ldr q29, [x3, #2192]
	sdot v22.4s, v31.16b, v30.16b
	ldr q31, [x3, #2208]
	sdot v23.4s, v29.16b, v28.16b
	ldr q29, [x3, #2288]
	sdot v20.4s, v31.16b, v30.16b
	ldr q31, [x3, #2240]
	sdot v2.4s, v29.16b, v28.16b
	ldr d29, [x4, x27]
	sdot v21.4s, v31.16b, v30.16b
	ldr q31, [x3, #2272]
	sdot v3.4s, v31.16b, v30.16b
	ldr q30, [x3, #2224]
	ldr q31, [x3, #2256]
	sdot v24.4s, v30.16b, v28.16b
	sdot v25.4s, v31.16b, v28.16b
	ldr d31, [x4, x9]
	ldr d28, [x4, x25]
	ldr q30, [x3, #2304]
	zip1 v28.16b, v31.16b, v28.16b
	ldr d31, [x4, x29]
	zip1 v29.16b, v29.16b, v31.16b
	zip1 v31.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	ldr q29, [x3, #2320]
	sdot v22.4s, v30.16b, v31.16b
	ldr q30, [x3, #2336]
	sdot v23.4s, v29.16b, v28.16b
	ldr q29, [x3, #2352]
	sdot v20.4s, v30.16b, v31.16b
	ldr q30, [x3, #2368]
	sdot v24.4s, v29.16b, v28.16b
	ldr q29, [x3, #2384]
	sdot v21.4s, v30.16b, v31.16b
	ldr q30, [x3, #2400]
	sdot v25.4s, v29.16b, v28.16b
	ldr q29, [x3, #2416]
	sdot v3.4s, v30.16b, v31.16b
	sdot v2.4s, v29.16b, v28.16b
	ldr q28, [x3, #1664]
	ldr q29, [x3, #1680]
	sdot v4.4s, v28.16b, v26.16b
	ldr q28, [x3, #1696]
	sdot v7.4s, v29.16b, v27.16b
	ldr q29, [x3, #1776]
	fadd v4.4s, v4.4s, v0.4s
	fadd v7.4s, v7.4s, v0.4s
	sdot v5.4s, v28.16b, v26.16b
	ldr q28, [x3, #1728]
	sdot v19.4s, v29.16b, v27.16b
	ldr d29, [x4, x28]
	fadd v5.4s, v5.4s, v0.4s
	sdot v16.4s, v28.16b, v26.16b
	ldr q28, [x3, #1760]
	sdot v17.4s, v28.16b, v26.16b
	ldr q26, [x3, #1712]
	ldr q28, [x3, #1744]
	sdot v6.4s, v26.16b, v27.16b
	ldr d26, [x4, x8]
	sdot v18.4s, v28.16b, v27.16b
	ldr d28, [x4, x23]
	ldr d27, [x4, x26]
	fadd v6.4s, v6.4s, v0.4s
	zip1 v26.16b, v26.16b, v28.16b
	zip1 v27.16b, v27.16b, v29.16b
	ldr q28, [x3, #2432]
	zip1 v29.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x3, #2448]
	sdot v22.4s, v28.16b, v29.16b
	ldr q28, [x3, #2464]
	sdot v23.4s, v27.16b, v26.16b
	ldr q27, [x3, #2480]
	sdot v20.4s, v28.16b, v29.16b
	ldr q28, [x3, #2496]
	sdot v24.4s, v27.16b, v26.16b
	ldr q27, [x3, #2512]
	sdot v21.4s, v28.16b, v29.16b
	ldr q28, [x3, #2528]
	sdot v25.4s, v27.16b, v26.16b
	ldr q27, [x3, #2544]
	sdot v3.4s, v28.16b, v29.16b
	sdot v2.4s, v27.16b, v26.16b
	fadd v3.4s, v3.4s, v0.4s
	fadd v2.4s, v2.4s, v0.4s
	ldp q27, q26, [x1]
	add x1, x0, x17, lsl #3
	add x17, x17, #1
	cmp x17, #3
	fmulx v7.4s, v7.4s, v26.4s
	fmulx v6.4s, v6.4s, v26.4s
	fmulx v2.4s, v2.4s, v26.4s
	fmulx v4.4s, v4.4s, v27.4s
	fmulx v5.4s, v5.4s, v27.4s
	fmulx v3.4s, v3.4s, v27.4s
	fadd v7.4s, v7.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	fadd v2.4s, v2.4s, v1.4s
	fadd v4.4s, v4.4s, v1.4s
	fadd v5.4s, v5.4s, v1.4s
	fadd v3.4s, v3.4s, v1.4s
	uzp1 v4.8h, v4.8h, v7.8h
	uzp1 v5.8h, v5.8h, v6.8h
	fadd v6.4s, v18.4s, v0.4s
	uzp1 v2.8h, v3.8h, v2.8h
	sqxtn v4.8b, v4.8h
	fmulx v6.4s, v6.4s, v26.4s
	sqxtn v5.8b, v5.8h
	sqxtn v2.8b, v2.8h
	fadd v6.4s, v6.4s, v1.4s
	str d4, [x1]
	fadd v4.4s, v16.4s, v0.4s
	str d5, [x1, #5376]
	fadd v5.4s, v17.4s, v0.4s
	str d2, [x1, x30]
	fmulx v4.4s, v4.4s, v27.4s
	fmulx v5.4s, v5.4s, v27.4s
	fadd v4.4s, v4.4s, v1.4s
	fadd v5.4s, v5.4s, v1.4s
	uzp1 v4.8h, v4.8h, v6.8h
	fadd v6.4s, v19.4s, v0.4s
	fmulx v6.4s, v6.4s, v26.4s
	sqxtn v4.8b, v4.8h
	fadd v6.4s, v6.4s, v1.4s
	uzp1 v5.8h, v5.8h, v6.8h
	str d4, [x1, #10752]
	fadd v4.4s, v22.4s, v0.4s
	fadd v6.4s, v23.4s, v0.4s
	fmulx v4.4s, v4.4s, v27.4s
	fmulx v6.4s, v6.4s, v26.4s
	sqxtn v5.8b, v5.8h
	fadd v4.4s, v4.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	uzp1 v4.8h, v4.8h, v6.8h
	str d5, [x1, #16128]
	fadd v5.4s, v20.4s, v0.4s
	fadd v6.4s, v24.4s, v0.4s
	fmulx v5.4s, v5.4s, v27.4s
	fmulx v6.4s, v6.4s, v26.4s
	sqxtn v4.8b, v4.8h
	fadd v5.4s, v5.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	uzp1 v5.8h, v5.8h, v6.8h
	str d4, [x1, #21504]
	fadd v4.4s, v21.4s, v0.4s
	fadd v6.4s, v25.4s, v0.4s
	fmulx v4.4s, v4.4s, v27.4s
	fmulx v6.4s, v6.4s, v26.4s
	sqxtn v5.8b, v5.8h
	fadd v4.4s, v4.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	uzp1 v4.8h, v4.8h, v6.8h
	str d5, [x1, #26880]
	sqxtn v3.8b, v4.8h
	str d3, [x1, #32256]
	b.ne .L0
