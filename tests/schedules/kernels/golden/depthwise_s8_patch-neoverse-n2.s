	add x3, x16, x18, lsl #3
	mov w29, #34560
	mov w27, #37632
	add x4, x7, x3, lsl #2
	ldp q25, q24, [x4]
	ldp q23, q22, [x4]
	ldp q21, q20, [x4]
	ldp q19, q18, [x4]
	ldp q17, q16, [x4]
	ldp q7, q6, [x4]
	ldp q5, q4, [x4]
	ldp q3, q2, [x4]
	madd x4, x18, x5, x17
	add x5, x0, x18, lsl #3
	ldr d26, [x5]
	ldr d27, [x5, #5760]
	ldr d28, [x5, #11520]
	ldr d29, [x5, #17280]
	add x3, x21, x3, lsl #2
	zip1 v26.16b, v26.16b, v27.16b
	ldp q30, q31, [x4]
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	sdot v25.4s, v30.16b, v28.16b
	sdot v24.4s, v31.16b, v26.16b
	ldp q27, q29, [x4, #32]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v27.16b, v28.16b
	ldp q27, q29, [x4, #64]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v27.16b, v28.16b
	ldp q27, q29, [x4, #96]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v27.16b, v28.16b
	ldr d28, [x5, #96]
	ldr d29, [x5, #5856]
	ldr d30, [x5, #11616]
	ldr d31, [x5, #17376]
	ldp q26, q27, [x4, #128]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x4, #160]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #192]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #224]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x5, #192]
	ldr d29, [x5, #5952]
	ldr d30, [x5, #11712]
	ldr d31, [x5, #17472]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	ldp q26, q27, [x4, #256]
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x4, #288]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #320]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #352]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x5, #288]
	ldr d29, [x5, #6048]
	ldr d30, [x5, #11808]
	ldr d31, [x5, #17568]
	ldp q26, q27, [x4, #384]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x4, #416]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #448]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #480]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x5, #384]
	ldr d29, [x5, #6144]
	ldr d30, [x5, #11904]
	ldr d31, [x5, #17664]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	ldp q26, q27, [x4, #512]
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x4, #544]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #576]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x4, #608]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x5, x29]
	mov w29, #40320
	ldr d26, [x5, #23040]
	ldr d27, [x5, #28800]
	ldp q30, q31, [x4, #640]
	ldr d29, [x5, x29]
	mov w29, #40416
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	sdot v25.4s, v30.16b, v27.16b
	sdot v24.4s, v31.16b, v26.16b
	ldp q28, q29, [x4, #672]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #704]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #736]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #768]
	sdot v16.4s, v29.16b, v26.16b
	sdot v17.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #800]
	sdot v6.4s, v29.16b, v26.16b
	sdot v7.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #832]
	sdot v4.4s, v29.16b, v26.16b
	sdot v5.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #864]
	sdot v2.4s, v29.16b, v26.16b
	sdot v3.4s, v28.16b, v27.16b
	ldr d26, [x5, #23136]
	ldr d27, [x5, #28896]
	ldr d30, [x5, x25]
	ldr d31, [x5, x29]
	ldp q28, q29, [x4, #896]
	mov w29, #34752
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x4, #928]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #960]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v28.16b, v27.16b
	ldp q28, q29, [x4, #992]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v28.16b, v27.16b
	ldr q28, [x4, #1024]
	ldr q29, [x4, #1040]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x4, #1056]
	ldr q29, [x4, #1072]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x4, #1088]
	ldr q29, [x4, #1104]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x4, #1120]
	ldr q29, [x4, #1136]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x5, x29]
	mov w29, #40512
	ldr d26, [x5, #23232]
	ldr d27, [x5, #28992]
	ldr q28, [x4, #1152]
	ldr q29, [x4, #1168]
	ldr d31, [x5, x29]
	mov w29, #34848
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x4, #1184]
	ldr q29, [x4, #1200]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x4, #1216]
	ldr q29, [x4, #1232]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x4, #1248]
	ldr q29, [x4, #1264]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x4, #1280]
	ldr q29, [x4, #1296]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x4, #1312]
	ldr q29, [x4, #1328]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x4, #1344]
	ldr q29, [x4, #1360]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x4, #1376]
	ldr q29, [x4, #1392]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x5, x29]
	mov w29, #40608
	ldr d26, [x5, #23328]
	ldr d27, [x5, #29088]
	ldr q28, [x4, #1408]
	ldr q29, [x4, #1424]
	ldr d31, [x5, x29]
	mov w29, #34944
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x4, #1440]
	ldr q29, [x4, #1456]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x4, #1472]
	ldr q29, [x4, #1488]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x4, #1504]
	ldr q29, [x4, #1520]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x4, #1536]
	ldr q29, [x4, #1552]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x4, #1568]
	ldr q29, [x4, #1584]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x4, #1600]
	ldr q29, [x4, #1616]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x4, #1632]
	ldr q29, [x4, #1648]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x5, x29]
	mov w29, #40704
	ldr d26, [x5, #23424]
	ldr d27, [x5, #29184]
	ldr q28, [x4, #1664]
	ldr q29, [x4, #1680]
	ldr d31, [x5, x29]
	mov w29, #46080
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x4, #1696]
	ldr q29, [x4, #1712]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x4, #1728]
	ldr q29, [x4, #1744]
	fadd v23.4s, v23.4s, v0.4s
	fadd v22.4s, v22.4s, v0.4s
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x4, #1760]
	ldr q29, [x4, #1776]
	fadd v21.4s, v21.4s, v0.4s
	fadd v20.4s, v20.4s, v0.4s
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x4, #1792]
	ldr q29, [x4, #1808]
	fadd v19.4s, v19.4s, v0.4s
	fadd v18.4s, v18.4s, v0.4s
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x4, #1824]
	ldr q29, [x4, #1840]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x4, #1856]
	ldr q29, [x4, #1872]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x4, #1888]
	ldr q29, [x4, #1904]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d27, [x5, x29]
	mov w29, #51840
	ldr d29, [x5, x12]
	ldr d30, [x5, x13]
	ldr q26, [x4, #1920]
	ldr q31, [x4, #1936]
	ldr d28, [x5, x29]
	zip1 v27.16b, v27.16b, v28.16b
	zip1 v28.16b, v29.16b, v30.16b
	zip1 v29.8h, v27.8h, v28.8h
	zip2 v27.8h, v27.8h, v28.8h
	sdot v17.4s, v26.16b, v29.16b
	sdot v16.4s, v31.16b, v27.16b
	ldr q26, [x4, #1952]
	ldr q28, [x4, #1968]
	sdot v7.4s, v26.16b, v29.16b
	sdot v6.4s, v28.16b, v27.16b
	ldr q26, [x4, #1984]
	ldr q28, [x4, #2000]
	sdot v5.4s, v26.16b, v29.16b
	sdot v4.4s, v28.16b, v27.16b
	ldr q26, [x4, #2016]
	ldr q28, [x4, #2032]
	sdot v3.4s, v26.16b, v29.16b
	sdot v2.4s, v28.16b, v27.16b
	ldr d28, [x5, x6]
	ldr d29, [x5, x19]
	ldr d30, [x5, x20]
	ldr d31, [x5, x2]
	ldr q26, [x4, #2048]
	ldr q27, [x4, #2064]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x4, #2080]
	ldr q27, [x4, #2096]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x4, #2112]
	ldr q27, [x4, #2128]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x4, #2144]
	ldr q27, [x4, #2160]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d28, [x5, x11]
	ldr d29, [x5, x14]
	ldr d30, [x5, x15]
	ldr d31, [x5, x22]
	ldr q26, [x4, #2176]
	ldr q27, [x4, #2192]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x4, #2208]
	ldr q27, [x4, #2224]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x4, #2240]
	ldr q27, [x4, #2256]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x4, #2272]
	ldr q27, [x4, #2288]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d28, [x5, x23]
	ldr d29, [x5, x8]
	ldr d30, [x5, x26]
	ldr d31, [x5, x28]
	ldr q26, [x4, #2304]
	ldr q27, [x4, #2320]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x4, #2336]
	ldr q27, [x4, #2352]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x4, #2368]
	ldr q27, [x4, #2384]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x4, #2400]
	ldr q27, [x4, #2416]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d26, [x5, x30]
	ldr d27, [x5, x9]
	ldr d28, [x5, x10]
	ldr d29, [x5, x24]
	ldr q30, [x4, #2432]
	ldr q31, [x4, #2448]
	mov w5, #2560
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	sdot v17.4s, v30.16b, v28.16b
	sdot v16.4s, v31.16b, v26.16b
	ldr q27, [x4, #2464]
	ldr q29, [x4, #2480]
	fadd v17.4s, v17.4s, v0.4s
	fadd v16.4s, v16.4s, v0.4s
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x4, #2496]
	ldr q29, [x4, #2512]
	fadd v7.4s, v7.4s, v0.4s
	fadd v6.4s, v6.4s, v0.4s
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x4, #2528]
	ldr q29, [x4, #2544]
	fadd v5.4s, v5.4s, v0.4s
	fadd v4.4s, v4.4s, v0.4s
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	fadd v26.4s, v25.4s, v0.4s
	fadd v27.4s, v24.4s, v0.4s
	ldp q25, q24, [x3]
	fadd v3.4s, v3.4s, v0.4s
	fadd v2.4s, v2.4s, v0.4s
	add x3, x1, x18, lsl #3
	add x18, x18, #1
	cmp x18, #3
	fmulx v27.4s, v27.4s, v24.4s
	fmulx v22.4s, v22.4s, v24.4s
	fmulx v20.4s, v20.4s, v24.4s
	fmulx v18.4s, v18.4s, v24.4s
	fmulx v16.4s, v16.4s, v24.4s
	fmulx v6.4s, v6.4s, v24.4s
	fmulx v4.4s, v4.4s, v24.4s
	fmulx v2.4s, v2.4s, v24.4s
	fmulx v26.4s, v26.4s, v25.4s
	fmulx v23.4s, v23.4s, v25.4s
	fmulx v21.4s, v21.4s, v25.4s
	fmulx v19.4s, v19.4s, v25.4s
	fmulx v17.4s, v17.4s, v25.4s
	fmulx v7.4s, v7.4s, v25.4s
	fmulx v5.4s, v5.4s, v25.4s
	fmulx v3.4s, v3.4s, v25.4s
	fadd v27.4s, v27.4s, v1.4s
	fadd v22.4s, v22.4s, v1.4s
	fadd v20.4s, v20.4s, v1.4s
	fadd v18.4s, v18.4s, v1.4s
	fadd v16.4s, v16.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	fadd v4.4s, v4.4s, v1.4s
	fadd v2.4s, v2.4s, v1.4s
	fadd v26.4s, v26.4s, v1.4s
	fadd v23.4s, v23.4s, v1.4s
	fadd v21.4s, v21.4s, v1.4s
	fadd v19.4s, v19.4s, v1.4s
	fadd v17.4s, v17.4s, v1.4s
	fadd v7.4s, v7.4s, v1.4s
	fadd v5.4s, v5.4s, v1.4s
	fadd v3.4s, v3.4s, v1.4s
	uzp1 v26.8h, v26.8h, v27.8h
	uzp1 v22.8h, v23.8h, v22.8h
	uzp1 v20.8h, v21.8h, v20.8h
	uzp1 v18.8h, v19.8h, v18.8h
	uzp1 v16.8h, v17.8h, v16.8h
	uzp1 v6.8h, v7.8h, v6.8h
	uzp1 v4.8h, v5.8h, v4.8h
	uzp1 v2.8h, v3.8h, v2.8h
	sqxtn v21.8b, v26.8h
	sqxtn v22.8b, v22.8h
	sqxtn v19.8b, v20.8h
	sqxtn v18.8b, v18.8h
	sqxtn v16.8b, v16.8h
	sqxtn v6.8b, v6.8h
	sqxtn v4.8b, v4.8h
	sqxtn v2.8b, v2.8h
	str d21, [x3]
	str d22, [x3, #5376]
	str d19, [x3, #10752]
	str d18, [x3, #16128]
	str d16, [x3, #21504]
	str d6, [x3, #26880]
	str d4, [x3, #32256]
	str d2, [x3, x27]
	b.ne .L0
