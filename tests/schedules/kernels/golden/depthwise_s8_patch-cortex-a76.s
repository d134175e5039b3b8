	add x4, x16, x18, lsl #3
	add x7, x23, x4, lsl #2
	mov w28, #63744
	add x6, x0, x18, lsl #3
	ldr d25, [x6]
	ldr d28, [x6, #5760]
	ldr d26, [x6, #11520]
	ldr d30, [x6, #17280]
	ldr d8, [x6, #96]
	ldr d31, [x6, #5856]
	ldr d9, [x6, #11616]
	ldr d0, [x6, #17376]
	ldr d4, [x6, #192]
	ldr d23, [x6, #5952]
	ldr d2, [x6, #11712]
	ldr d20, [x6, #17472]
	ldr d11, [x6, #288]
	ldr d13, [x6, #6048]
	ldr d1, [x6, #11808]
	str q1, [sp, #224]
	ldr d10, [x6, #17568]
	ldr d24, [x6, #384]
	ldr d29, [x6, #6144]
	ldr d1, [x6, #11904]
	ldr d15, [x6, #17664]
	ldr d12, [x6, #23040]
	ldr d22, [x6, #28800]
	mov w30, #34560
	ldr d3, [x6, x30]
	str q3, [sp, #208]
	ldr d3, [x6, x22]
	str q3, [sp, #192]
	ldr d21, [x6, #23136]
	ldr d19, [x6, #28896]
	mov w30, #34656
	ldr d3, [x6, x30]
	mov w30, #40416
	ldr d27, [x6, x30]
	ldr d18, [x6, #23232]
	ldr d16, [x6, #28992]
	mov w30, #34752
	ldr d17, [x6, x30]
	zip1 v25.16b, v25.16b, v28.16b
	zip1 v14.16b, v26.16b, v30.16b
	mov w30, #40512
	ldr d7, [x6, x30]
	ldr d6, [x6, #23328]
	ldr d5, [x6, #29088]
	zip1 v30.16b, v8.16b, v31.16b
	zip1 v31.16b, v9.16b, v0.16b
	zip1 v23.16b, v4.16b, v23.16b
	mov w30, #34848
	ldr d4, [x6, x30]
	mov w30, #40608
	ldr d8, [x6, x30]
	ldr d9, [x6, #23424]
	zip1 v20.16b, v2.16b, v20.16b
	zip1 v28.16b, v11.16b, v13.16b
	ldr q0, [sp, #224]
	zip1 v26.16b, v0.16b, v10.16b
	ldr d10, [x6, #29184]
	mov w30, #34944
	ldr d11, [x6, x30]
	mov w30, #40704
	ldr d13, [x6, x30]
	zip1 v29.16b, v24.16b, v29.16b
	zip1 v15.16b, v1.16b, v15.16b
	zip1 v22.16b, v12.16b, v22.16b
	mov w30, #46080
	ldr d1, [x6, x30]
	ldr d0, [x6, x11]
	ldr d2, [x6, x2]
	ldp q12, q24, [sp, #192]
	zip1 v24.16b, v24.16b, v12.16b
	zip1 v12.16b, v21.16b, v19.16b
	zip1 v27.16b, v3.16b, v27.16b
	ldr d21, [x6, x14]
	ldp q3, q19, [x7]
	zip1 v16.16b, v18.16b, v16.16b
	zip1 v7.16b, v17.16b, v7.16b
	stp q7, q16, [sp, #144]
	zip1 v5.16b, v6.16b, v5.16b
	zip1 v6.16b, v4.16b, v8.16b
	zip1 v4.16b, v9.16b, v10.16b
	stp q4, q5, [sp, #208]
	zip1 v4.16b, v11.16b, v13.16b
	stp q4, q6, [sp, #176]
	zip1 v8.16b, v1.16b, v0.16b
	zip1 v9.16b, v2.16b, v21.16b
	mov w7, #2560
	madd x7, x18, x7, x17
	mov v6.16b, v3.16b
	mov v5.16b, v3.16b
	ldp q0, q2, [x7]
	mov v4.16b, v3.16b
	zip1 v1.8h, v25.8h, v14.8h
	zip2 v21.8h, v25.8h, v14.8h
	zip1 v25.8h, v30.8h, v31.8h
	zip2 v30.8h, v30.8h, v31.8h
	ldp q7, q16, [x7, #32]
	sdot v6.4s, v0.16b, v1.16b
	ldp q0, q31, [x7, #64]
	sdot v5.4s, v7.16b, v1.16b
	sdot v4.4s, v0.16b, v1.16b
	ldp q0, q10, [x7, #96]
	mov v7.16b, v3.16b
	sdot v7.4s, v0.16b, v1.16b
	mov v1.16b, v19.16b
	sdot v1.4s, v2.16b, v21.16b
	mov v18.16b, v19.16b
	sdot v18.4s, v16.16b, v21.16b
	mov v17.16b, v19.16b
	sdot v17.4s, v31.16b, v21.16b
	mov v16.16b, v19.16b
	sdot v16.4s, v10.16b, v21.16b
	ldp q0, q2, [x7, #128]
	sdot v6.4s, v0.16b, v25.16b
	sdot v1.4s, v2.16b, v30.16b
	ldp q0, q2, [x7, #160]
	sdot v5.4s, v0.16b, v25.16b
	sdot v18.4s, v2.16b, v30.16b
	ldp q0, q2, [x7, #192]
	sdot v4.4s, v0.16b, v25.16b
	sdot v17.4s, v2.16b, v30.16b
	ldp q0, q2, [x7, #224]
	sdot v7.4s, v0.16b, v25.16b
	ldr d0, [x6, x1]
	sdot v16.4s, v2.16b, v30.16b
	ldr d2, [x6, x5]
	ldp q21, q25, [x7, #256]
	zip1 v13.16b, v0.16b, v2.16b
	zip1 v0.8h, v23.8h, v20.8h
	zip2 v2.8h, v23.8h, v20.8h
	zip1 v20.8h, v28.8h, v26.8h
	zip2 v23.8h, v28.8h, v26.8h
	zip1 v26.8h, v29.8h, v15.8h
	zip2 v28.8h, v29.8h, v15.8h
	sdot v6.4s, v21.16b, v0.16b
	sdot v1.4s, v25.16b, v2.16b
	ldp q21, q25, [x7, #288]
	sdot v5.4s, v21.16b, v0.16b
	sdot v18.4s, v25.16b, v2.16b
	ldp q21, q25, [x7, #320]
	sdot v4.4s, v21.16b, v0.16b
	ldp q21, q29, [x7, #352]
	sdot v17.4s, v25.16b, v2.16b
	zip1 v25.8h, v22.8h, v24.8h
	sdot v7.4s, v21.16b, v0.16b
	sdot v16.4s, v29.16b, v2.16b
	ldp q0, q2, [x7, #384]
	sdot v6.4s, v0.16b, v20.16b
	sdot v1.4s, v2.16b, v23.16b
	ldp q0, q2, [x7, #416]
	sdot v5.4s, v0.16b, v20.16b
	ldp q0, q21, [x7, #448]
	sdot v18.4s, v2.16b, v23.16b
	sdot v4.4s, v0.16b, v20.16b
	ldp q0, q2, [x7, #480]
	sdot v17.4s, v21.16b, v23.16b
	sdot v7.4s, v0.16b, v20.16b
	sdot v16.4s, v2.16b, v23.16b
	ldp q0, q2, [x7, #512]
	sdot v6.4s, v0.16b, v26.16b
	mov v20.16b, v3.16b
	sdot v1.4s, v2.16b, v28.16b
	ldp q0, q2, [x7, #544]
	sdot v5.4s, v0.16b, v26.16b
	ldp q21, q0, [x7, #768]
	sdot v20.4s, v21.16b, v25.16b
	sdot v18.4s, v2.16b, v28.16b
	ldp q2, q23, [x7, #576]
	sdot v4.4s, v2.16b, v26.16b
	mov v21.16b, v3.16b
	sdot v17.4s, v23.16b, v28.16b
	ldp q2, q23, [x7, #608]
	sdot v7.4s, v2.16b, v26.16b
	ldp q29, q2, [x7, #800]
	sdot v21.4s, v29.16b, v25.16b
	sdot v16.4s, v23.16b, v28.16b
	ldp q23, q26, [x7, #640]
	sdot v6.4s, v23.16b, v25.16b
	ldp q23, q28, [x7, #672]
	sdot v5.4s, v23.16b, v25.16b
	ldp q23, q29, [x7, #704]
	sdot v4.4s, v23.16b, v25.16b
	ldp q23, q30, [x7, #736]
	sdot v7.4s, v23.16b, v25.16b
	ldp q31, q10, [x7, #832]
	mov v23.16b, v3.16b
	sdot v23.4s, v31.16b, v25.16b
	ldp q31, q11, [x7, #864]
	sdot v3.4s, v31.16b, v25.16b
	ldr d25, [x6, x12]
	ldr d31, [x6, x10]
	zip1 v14.16b, v25.16b, v31.16b
	zip2 v31.8h, v22.8h, v24.8h
	mov v25.16b, v19.16b
	sdot v25.4s, v0.16b, v31.16b
	sdot v1.4s, v26.16b, v31.16b
	mov v24.16b, v19.16b
	sdot v24.4s, v2.16b, v31.16b
	mov v22.16b, v19.16b
	sdot v22.4s, v10.16b, v31.16b
	sdot v19.4s, v11.16b, v31.16b
	sdot v18.4s, v28.16b, v31.16b
	zip1 v0.8h, v12.8h, v27.8h
	ldr q2, [x7, #1024]
	sdot v20.4s, v2.16b, v0.16b
	sdot v17.4s, v29.16b, v31.16b
	ldr q2, [x7, #1056]
	sdot v21.4s, v2.16b, v0.16b
	sdot v16.4s, v30.16b, v31.16b
	ldp q2, q26, [x7, #896]
	sdot v6.4s, v2.16b, v0.16b
	ldp q2, q28, [x7, #928]
	sdot v5.4s, v2.16b, v0.16b
	ldp q2, q30, [x7, #960]
	sdot v4.4s, v2.16b, v0.16b
	ldp q2, q31, [x7, #992]
	sdot v7.4s, v2.16b, v0.16b
	ldr q2, [x7, #1088]
	sdot v23.4s, v2.16b, v0.16b
	ldr q2, [x7, #1120]
	sdot v3.4s, v2.16b, v0.16b
	ldr d0, [x6, x13]
	ldr d2, [x6, x15]
	zip1 v29.16b, v0.16b, v2.16b
	zip2 v0.8h, v12.8h, v27.8h
	ldr q2, [x7, #1040]
	sdot v25.4s, v2.16b, v0.16b
	sdot v1.4s, v26.16b, v0.16b
	ldr q2, [x7, #1072]
	sdot v24.4s, v2.16b, v0.16b
	sdot v18.4s, v28.16b, v0.16b
	ldr q2, [x7, #1104]
	sdot v22.4s, v2.16b, v0.16b
	sdot v17.4s, v30.16b, v0.16b
	ldr q2, [x7, #1136]
	sdot v19.4s, v2.16b, v0.16b
	sdot v16.4s, v31.16b, v0.16b
	ldp q27, q26, [sp, #144]
	zip1 v0.8h, v26.8h, v27.8h
	ldr q2, [x7, #1152]
	sdot v6.4s, v2.16b, v0.16b
	ldr q2, [x7, #1184]
	sdot v5.4s, v2.16b, v0.16b
	ldr q2, [x7, #1216]
	sdot v4.4s, v2.16b, v0.16b
	ldr q2, [x7, #1280]
	sdot v20.4s, v2.16b, v0.16b
	ldr q2, [x7, #1312]
	sdot v21.4s, v2.16b, v0.16b
	ldr q2, [x7, #1248]
	sdot v7.4s, v2.16b, v0.16b
	ldr q2, [x7, #1344]
	sdot v23.4s, v2.16b, v0.16b
	ldr q2, [x7, #1376]
	sdot v3.4s, v2.16b, v0.16b
	ldr d0, [x6, x19]
	ldr d2, [x6, x20]
	zip1 v12.16b, v0.16b, v2.16b
	zip2 v2.8h, v26.8h, v27.8h
	ldr q0, [sp, #224]
	ldp q28, q27, [sp, #192]
	zip1 v26.8h, v0.8h, v28.8h
	zip2 v0.8h, v0.8h, v28.8h
	ldr q30, [sp, #176]
	zip1 v28.8h, v27.8h, v30.8h
	zip2 v27.8h, v27.8h, v30.8h
	zip1 v30.8h, v8.8h, v9.8h
	zip2 v31.8h, v8.8h, v9.8h
	ldr q8, [x7, #1168]
	sdot v1.4s, v8.16b, v2.16b
	ldr q8, [x7, #1200]
	sdot v18.4s, v8.16b, v2.16b
	ldr q8, [x7, #1232]
	sdot v17.4s, v8.16b, v2.16b
	ldr q8, [x7, #1296]
	sdot v25.4s, v8.16b, v2.16b
	ldr q8, [x7, #1328]
	sdot v24.4s, v8.16b, v2.16b
	ldr q8, [x7, #1264]
	sdot v16.4s, v8.16b, v2.16b
	ldr q8, [x7, #1360]
	sdot v22.4s, v8.16b, v2.16b
	ldr q8, [x7, #1392]
	sdot v19.4s, v8.16b, v2.16b
	ldr q2, [x7, #1536]
	sdot v20.4s, v2.16b, v26.16b
	ldr q2, [x7, #1568]
	sdot v21.4s, v2.16b, v26.16b
	ldr q2, [x7, #1600]
	sdot v23.4s, v2.16b, v26.16b
	ldr q2, [x7, #1632]
	sdot v3.4s, v2.16b, v26.16b
	ldr q2, [x7, #1792]
	sdot v20.4s, v2.16b, v28.16b
	ldr q2, [x7, #1824]
	sdot v21.4s, v2.16b, v28.16b
	ldr q2, [x7, #1856]
	sdot v23.4s, v2.16b, v28.16b
	ldr q2, [x7, #1888]
	sdot v3.4s, v2.16b, v28.16b
	ldr q2, [x7, #1920]
	sdot v20.4s, v2.16b, v30.16b
	ldr q2, [x7, #1952]
	sdot v21.4s, v2.16b, v30.16b
	ldr q2, [x7, #1984]
	sdot v23.4s, v2.16b, v30.16b
	ldr q2, [x7, #2016]
	sdot v3.4s, v2.16b, v30.16b
	ldr q2, [x7, #1552]
	sdot v25.4s, v2.16b, v0.16b
	ldr q2, [x7, #1584]
	sdot v24.4s, v2.16b, v0.16b
	ldr q2, [x7, #1616]
	sdot v22.4s, v2.16b, v0.16b
	ldr q2, [x7, #1648]
	sdot v19.4s, v2.16b, v0.16b
	ldr q2, [x7, #1808]
	sdot v25.4s, v2.16b, v27.16b
	ldr q2, [x7, #1840]
	sdot v24.4s, v2.16b, v27.16b
	ldr q2, [x7, #1872]
	sdot v22.4s, v2.16b, v27.16b
	ldr q2, [x7, #1904]
	sdot v19.4s, v2.16b, v27.16b
	ldr q2, [x7, #1936]
	sdot v25.4s, v2.16b, v31.16b
	ldr q2, [x7, #1968]
	sdot v24.4s, v2.16b, v31.16b
	ldr q2, [x7, #2000]
	sdot v22.4s, v2.16b, v31.16b
	ldr q2, [x7, #2032]
	sdot v19.4s, v2.16b, v31.16b
	ldr d2, [x6, x9]
	ldr d30, [x6, x24]
	zip1 v31.16b, v2.16b, v30.16b
	zip1 v2.8h, v13.8h, v14.8h
	zip2 v30.8h, v13.8h, v14.8h
	ldr q8, [x7, #2048]
	sdot v20.4s, v8.16b, v2.16b
	ldr q8, [x7, #2080]
	sdot v21.4s, v8.16b, v2.16b
	ldr q8, [x7, #2112]
	sdot v23.4s, v8.16b, v2.16b
	ldr q8, [x7, #2144]
	sdot v3.4s, v8.16b, v2.16b
	ldr q2, [x7, #1408]
	sdot v6.4s, v2.16b, v26.16b
	ldr q2, [x7, #1440]
	sdot v5.4s, v2.16b, v26.16b
	ldr q2, [x7, #2064]
	sdot v25.4s, v2.16b, v30.16b
	ldr q2, [x7, #2096]
	sdot v24.4s, v2.16b, v30.16b
	ldr q2, [x7, #1472]
	sdot v4.4s, v2.16b, v26.16b
	ldr q2, [x7, #2128]
	sdot v22.4s, v2.16b, v30.16b
	ldr q2, [x7, #2160]
	sdot v19.4s, v2.16b, v30.16b
	ldr q2, [x7, #1504]
	sdot v7.4s, v2.16b, v26.16b
	ldr d2, [x6, x27]
	ldr d26, [x6, x29]
	ldr q30, [x7, #1424]
	zip1 v8.16b, v2.16b, v26.16b
	zip1 v2.8h, v29.8h, v12.8h
	sdot v1.4s, v30.16b, v0.16b
	ldr q26, [x7, #1456]
	sdot v18.4s, v26.16b, v0.16b
	ldr q26, [x7, #2176]
	sdot v20.4s, v26.16b, v2.16b
	ldr q26, [x7, #2208]
	sdot v21.4s, v26.16b, v2.16b
	ldr q26, [x7, #1488]
	sdot v17.4s, v26.16b, v0.16b
	ldr q26, [x7, #2240]
	sdot v23.4s, v26.16b, v2.16b
	ldr q26, [x7, #2272]
	sdot v3.4s, v26.16b, v2.16b
	ldr q2, [x7, #1520]
	sdot v16.4s, v2.16b, v0.16b
	ldr d0, [x6, x8]
	ldr d2, [x6, x21]
	ldr q30, [x7, #2304]
	zip1 v26.16b, v0.16b, v2.16b
	zip1 v0.8h, v31.8h, v8.8h
	sdot v20.4s, v30.16b, v0.16b
	ldr q2, [x7, #2336]
	sdot v21.4s, v2.16b, v0.16b
	ldr q2, [x7, #2368]
	sdot v23.4s, v2.16b, v0.16b
	ldr q2, [x7, #2400]
	sdot v3.4s, v2.16b, v0.16b
	ldr d0, [x6, x26]
	ldr d2, [x6, x28]
	mov w6, #37632
	zip1 v30.16b, v0.16b, v2.16b
	zip2 v29.8h, v29.8h, v12.8h
	zip2 v0.8h, v31.8h, v8.8h
	ldr q2, [x7, #1664]
	sdot v6.4s, v2.16b, v28.16b
	ldr q2, [x7, #1680]
	sdot v1.4s, v2.16b, v27.16b
	ldr q2, [x7, #1696]
	sdot v5.4s, v2.16b, v28.16b
	ldr q2, [x7, #1712]
	sdot v18.4s, v2.16b, v27.16b
	ldr q2, [x7, #1728]
	sdot v4.4s, v2.16b, v28.16b
	ldr q2, [x7, #1760]
	sdot v7.4s, v2.16b, v28.16b
	ldr q2, [x7, #1744]
	ldr q28, [x7, #1776]
	sdot v17.4s, v2.16b, v27.16b
	zip1 v2.8h, v26.8h, v30.8h
	sdot v16.4s, v28.16b, v27.16b
	ldr q27, [x7, #2432]
	sdot v20.4s, v27.16b, v2.16b
	ldr q27, [x7, #2464]
	sdot v21.4s, v27.16b, v2.16b
	ldr q27, [x7, #2496]
	sdot v23.4s, v27.16b, v2.16b
	ldr q27, [x7, #2528]
	sdot v3.4s, v27.16b, v2.16b
	add x4, x25, x4, lsl #2
	ldp q2, q27, [x4]
	zip2 v26.8h, v26.8h, v30.8h
	ldr q30, [sp, #128]
	ldr q28, [x7, #2192]
	fadd v6.4s, v6.4s, v30.4s
	sdot v25.4s, v28.16b, v29.16b
	fadd v1.4s, v1.4s, v30.4s
	ldr q28, [x7, #2224]
	fadd v5.4s, v5.4s, v30.4s
	sdot v24.4s, v28.16b, v29.16b
	fadd v18.4s, v18.4s, v30.4s
	ldr q28, [x7, #2320]
	fadd v4.4s, v4.4s, v30.4s
	sdot v25.4s, v28.16b, v0.16b
	fadd v17.4s, v17.4s, v30.4s
	ldr q28, [x7, #2352]
	fadd v7.4s, v7.4s, v30.4s
	sdot v24.4s, v28.16b, v0.16b
	fadd v16.4s, v16.4s, v30.4s
	ldr q28, [x7, #2448]
	fadd v20.4s, v20.4s, v30.4s
	sdot v25.4s, v28.16b, v26.16b
	fadd v25.4s, v25.4s, v30.4s
	ldr q28, [x7, #2480]
	fadd v21.4s, v21.4s, v30.4s
	sdot v24.4s, v28.16b, v26.16b
	fadd v24.4s, v24.4s, v30.4s
	ldr q28, [x7, #2256]
	fadd v23.4s, v23.4s, v30.4s
	sdot v22.4s, v28.16b, v29.16b
	fadd v3.4s, v3.4s, v30.4s
	ldr q28, [x7, #2288]
	fmulx v6.4s, v6.4s, v2.4s
	sdot v19.4s, v28.16b, v29.16b
	fmulx v5.4s, v5.4s, v2.4s
	ldr q28, [x7, #2384]
	fmulx v4.4s, v4.4s, v2.4s
	sdot v22.4s, v28.16b, v0.16b
	fmulx v7.4s, v7.4s, v2.4s
	ldr q28, [x7, #2416]
	fmulx v20.4s, v20.4s, v2.4s
	sdot v19.4s, v28.16b, v0.16b
	fmulx v0.4s, v21.4s, v2.4s
	ldr q21, [x7, #2512]
	fmulx v23.4s, v23.4s, v2.4s
	sdot v22.4s, v21.16b, v26.16b
	fmulx v2.4s, v3.4s, v2.4s
	ldr q3, [x7, #2544]
	fadd v21.4s, v22.4s, v30.4s
	sdot v19.4s, v3.16b, v26.16b
	fadd v3.4s, v19.4s, v30.4s
	fmulx v1.4s, v1.4s, v27.4s
	fmulx v18.4s, v18.4s, v27.4s
	fmulx v17.4s, v17.4s, v27.4s
	fmulx v16.4s, v16.4s, v27.4s
	fmulx v19.4s, v25.4s, v27.4s
	fmulx v22.4s, v24.4s, v27.4s
	ldr q24, [sp, #112]
	fmulx v21.4s, v21.4s, v27.4s
	fmulx v3.4s, v3.4s, v27.4s
	fadd v1.4s, v1.4s, v24.4s
	fadd v6.4s, v6.4s, v24.4s
	uzp1 v1.8h, v6.8h, v1.8h
	fadd v6.4s, v18.4s, v24.4s
	fadd v5.4s, v5.4s, v24.4s
	uzp1 v5.8h, v5.8h, v6.8h
	fadd v6.4s, v17.4s, v24.4s
	fadd v4.4s, v4.4s, v24.4s
	uzp1 v4.8h, v4.8h, v6.8h
	fadd v6.4s, v16.4s, v24.4s
	fadd v7.4s, v7.4s, v24.4s
	uzp1 v6.8h, v7.8h, v6.8h
	fadd v7.4s, v19.4s, v24.4s
	fadd v16.4s, v20.4s, v24.4s
	uzp1 v7.8h, v16.8h, v7.8h
	fadd v16.4s, v22.4s, v24.4s
	fadd v0.4s, v0.4s, v24.4s
	uzp1 v0.8h, v0.8h, v16.8h
	fadd v16.4s, v21.4s, v24.4s
	fadd v17.4s, v23.4s, v24.4s
	uzp1 v16.8h, v17.8h, v16.8h
	fadd v3.4s, v3.4s, v24.4s
	fadd v2.4s, v2.4s, v24.4s
	uzp1 v2.8h, v2.8h, v3.8h
	add x4, x3, x18, lsl #3
	sqxtn v1.8b, v1.8h
	str d1, [x4]
	sqxtn v1.8b, v5.8h
	str d1, [x4, #5376]
	sqxtn v1.8b, v4.8h
	str d1, [x4, #10752]
	sqxtn v1.8b, v6.8h
	str d1, [x4, #16128]
	sqxtn v1.8b, v7.8h
	str d1, [x4, #21504]
	sqxtn v0.8b, v0.8h
	str d0, [x4, #26880]
	sqxtn v0.8b, v2.8h
	str d0, [x4, x6]
	sqxtn v0.8b, v16.8h
	str d0, [x4, #32256]
	add x18, x18, #1
	cmp x18, #3
	b.ne .L0
