	add x1, x15, x17, lsl #3
	mov w30, #34560
	mov w28, #37632
	add x3, x7, x1, lsl #2
	ldp q25, q24, [x3]
	ldp q23, q22, [x3]
	ldp q21, q20, [x3]
	ldp q19, q18, [x3]
	ldp q17, q16, [x3]
	ldp q7, q6, [x3]
	ldp q5, q4, [x3]
	ldp q3, q2, [x3]
	madd x3, x17, x4, x16
	add x4, x18, x17, lsl #3
	ldr d26, [x4]
	ldr d27, [x4, #5760]
	ldr d28, [x4, #11520]
	ldr d29, [x4, #17280]
	add x1, x21, x1, lsl #2
	zip1 v26.16b, v26.16b, v27.16b
	ldp q30, q31, [x3]
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	sdot v25.4s, v30.16b, v28.16b
	sdot v24.4s, v31.16b, v26.16b
	ldp q27, q29, [x3, #32]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v27.16b, v28.16b
	ldp q27, q29, [x3, #64]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v27.16b, v28.16b
	ldp q27, q29, [x3, #96]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v27.16b, v28.16b
	ldr d28, [x4, #96]
	ldr d29, [x4, #5856]
	ldr d30, [x4, #11616]
	ldr d31, [x4, #17376]
	ldp q26, q27, [x3, #128]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x3, #160]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #192]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #224]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x4, #192]
	ldr d29, [x4, #5952]
	ldr d30, [x4, #11712]
	ldr d31, [x4, #17472]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	ldp q26, q27, [x3, #256]
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x3, #288]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #320]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #352]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x4, #288]
	ldr d29, [x4, #6048]
	ldr d30, [x4, #11808]
	ldr d31, [x4, #17568]
	ldp q26, q27, [x3, #384]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x3, #416]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #448]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #480]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x4, #384]
	ldr d29, [x4, #6144]
	ldr d30, [x4, #11904]
	ldr d31, [x4, #17664]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	ldp q26, q27, [x3, #512]
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v25.4s, v26.16b, v30.16b
	sdot v24.4s, v27.16b, v28.16b
	ldp q26, q27, [x3, #544]
	sdot v22.4s, v27.16b, v28.16b
	sdot v23.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #576]
	sdot v20.4s, v27.16b, v28.16b
	sdot v21.4s, v26.16b, v30.16b
	ldp q26, q27, [x3, #608]
	sdot v18.4s, v27.16b, v28.16b
	sdot v19.4s, v26.16b, v30.16b
	ldr d28, [x4, x30]
	mov w30, #40320
	ldr d26, [x4, #23040]
	ldr d27, [x4, #28800]
	ldp q30, q31, [x3, #640]
	ldr d29, [x4, x30]
	mov w30, #40416
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	sdot v25.4s, v30.16b, v27.16b
	sdot v24.4s, v31.16b, v26.16b
	ldp q28, q29, [x3, #672]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #704]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #736]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #768]
	sdot v16.4s, v29.16b, v26.16b
	sdot v17.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #800]
	sdot v6.4s, v29.16b, v26.16b
	sdot v7.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #832]
	sdot v4.4s, v29.16b, v26.16b
	sdot v5.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #864]
	sdot v2.4s, v29.16b, v26.16b
	sdot v3.4s, v28.16b, v27.16b
	ldr d26, [x4, #23136]
	ldr d27, [x4, #28896]
	ldr d30, [x4, x24]
	ldr d31, [x4, x30]
	ldp q28, q29, [x3, #896]
	mov w30, #34752
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x3, #928]
	sdot v22.4s, v29.16b, v26.16b
	sdot v23.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #960]
	sdot v20.4s, v29.16b, v26.16b
	sdot v21.4s, v28.16b, v27.16b
	ldp q28, q29, [x3, #992]
	sdot v18.4s, v29.16b, v26.16b
	sdot v19.4s, v28.16b, v27.16b
	ldr q28, [x3, #1024]
	ldr q29, [x3, #1040]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x3, #1056]
	ldr q29, [x3, #1072]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x3, #1088]
	ldr q29, [x3, #1104]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x3, #1120]
	ldr q29, [x3, #1136]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x4, x30]
	mov w30, #40512
	ldr d26, [x4, #23232]
	ldr d27, [x4, #28992]
	ldr q28, [x3, #1152]
	ldr q29, [x3, #1168]
	ldr d31, [x4, x30]
	mov w30, #34848
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x3, #1184]
	ldr q29, [x3, #1200]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x3, #1216]
	ldr q29, [x3, #1232]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x3, #1248]
	ldr q29, [x3, #1264]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x3, #1280]
	ldr q29, [x3, #1296]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x3, #1312]
	ldr q29, [x3, #1328]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x3, #1344]
	ldr q29, [x3, #1360]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x3, #1376]
	ldr q29, [x3, #1392]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x4, x30]
	mov w30, #40608
	ldr d26, [x4, #23328]
	ldr d27, [x4, #29088]
	ldr q28, [x3, #1408]
	ldr q29, [x3, #1424]
	ldr d31, [x4, x30]
	mov w30, #34944
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x3, #1440]
	ldr q29, [x3, #1456]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x3, #1472]
	ldr q29, [x3, #1488]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x3, #1504]
	ldr q29, [x3, #1520]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x3, #1536]
	ldr q29, [x3, #1552]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x3, #1568]
	ldr q29, [x3, #1584]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x3, #1600]
	ldr q29, [x3, #1616]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x3, #1632]
	ldr q29, [x3, #1648]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d30, [x4, x30]
	mov w30, #40704
	ldr d26, [x4, #23424]
	ldr d27, [x4, #29184]
	ldr q28, [x3, #1664]
	ldr q29, [x3, #1680]
	ldr d31, [x4, x30]
	mov w30, #46080
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v30.16b, v30.16b, v31.16b
	zip1 v27.8h, v26.8h, v30.8h
	zip2 v26.8h, v26.8h, v30.8h
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x3, #1696]
	ldr q29, [x3, #1712]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x3, #1728]
	ldr q29, [x3, #1744]
	fadd v23.4s, v23.4s, v0.4s
	fadd v22.4s, v22.4s, v0.4s
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x3, #1760]
	ldr q29, [x3, #1776]
	fadd v21.4s, v21.4s, v0.4s
	fadd v20.4s, v20.4s, v0.4s
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x3, #1792]
	ldr q29, [x3, #1808]
	fadd v19.4s, v19.4s, v0.4s
	fadd v18.4s, v18.4s, v0.4s
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x3, #1824]
	ldr q29, [x3, #1840]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x3, #1856]
	ldr q29, [x3, #1872]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x3, #1888]
	ldr q29, [x3, #1904]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d27, [x4, x30]
	mov w30, #51840
	ldr d29, [x4, x11]
	ldr d30, [x4, x12]
	ldr q26, [x3, #1920]
	ldr q31, [x3, #1936]
	ldr d28, [x4, x30]
	zip1 v27.16b, v27.16b, v28.16b
	zip1 v28.16b, v29.16b, v30.16b
	zip1 v29.8h, v27.8h, v28.8h
	zip2 v27.8h, v27.8h, v28.8h
	sdot v17.4s, v26.16b, v29.16b
	sdot v16.4s, v31.16b, v27.16b
	ldr q26, [x3, #1952]
	ldr q28, [x3, #1968]
	sdot v7.4s, v26.16b, v29.16b
	sdot v6.4s, v28.16b, v27.16b
	ldr q26, [x3, #1984]
	ldr q28, [x3, #2000]
	sdot v5.4s, v26.16b, v29.16b
	sdot v4.4s, v28.16b, v27.16b
	ldr q26, [x3, #2016]
	ldr q28, [x3, #2032]
	sdot v3.4s, v26.16b, v29.16b
	sdot v2.4s, v28.16b, v27.16b
	ldr d28, [x4, x6]
	ldr d29, [x4, x19]
	ldr d30, [x4, x20]
	ldr d31, [x4, x2]
	ldr q26, [x3, #2048]
	ldr q27, [x3, #2064]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x3, #2080]
	ldr q27, [x3, #2096]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x3, #2112]
	ldr q27, [x3, #2128]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x3, #2144]
	ldr q27, [x3, #2160]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d28, [x4, x10]
	ldr d29, [x4, x13]
	ldr d30, [x4, x14]
	ldr d31, [x4, x5]
	ldr q26, [x3, #2176]
	ldr q27, [x3, #2192]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x3, #2208]
	ldr q27, [x3, #2224]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x3, #2240]
	ldr q27, [x3, #2256]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x3, #2272]
	ldr q27, [x3, #2288]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d28, [x4, x22]
	ldr d29, [x4, x9]
	ldr d30, [x4, x25]
	ldr d31, [x4, x27]
	ldr q26, [x3, #2304]
	ldr q27, [x3, #2320]
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v29.16b, v30.16b, v31.16b
	zip1 v30.8h, v28.8h, v29.8h
	zip2 v28.8h, v28.8h, v29.8h
	sdot v17.4s, v26.16b, v30.16b
	sdot v16.4s, v27.16b, v28.16b
	ldr q26, [x3, #2336]
	ldr q27, [x3, #2352]
	sdot v7.4s, v26.16b, v30.16b
	sdot v6.4s, v27.16b, v28.16b
	ldr q26, [x3, #2368]
	ldr q27, [x3, #2384]
	sdot v5.4s, v26.16b, v30.16b
	sdot v4.4s, v27.16b, v28.16b
	ldr q26, [x3, #2400]
	ldr q27, [x3, #2416]
	sdot v3.4s, v26.16b, v30.16b
	sdot v2.4s, v27.16b, v28.16b
	ldr d26, [x4, x29]
	ldr d27, [x4, x8]
	ldr d28, [x4, x23]
	ldr d29, [x4, x26]
	ldr q30, [x3, #2432]
	ldr q31, [x3, #2448]
	mov w4, #2560
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	sdot v17.4s, v30.16b, v28.16b
	sdot v16.4s, v31.16b, v26.16b
	ldr q27, [x3, #2464]
	ldr q29, [x3, #2480]
	fadd v17.4s, v17.4s, v0.4s
	fadd v16.4s, v16.4s, v0.4s
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x3, #2496]
	ldr q29, [x3, #2512]
	fadd v7.4s, v7.4s, v0.4s
	fadd v6.4s, v6.4s, v0.4s
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x3, #2528]
	ldr q29, [x3, #2544]
	fadd v5.4s, v5.4s, v0.4s
	fadd v4.4s, v4.4s, v0.4s
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	fadd v26.4s, v25.4s, v0.4s
	fadd v27.4s, v24.4s, v0.4s
	ldp q25, q24, [x1]
	fadd v3.4s, v3.4s, v0.4s
	fadd v2.4s, v2.4s, v0.4s
	add x1, x0, x17, lsl #3
	add x17, x17, #1
	cmp x17, #3
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
	str d21, [x1]
	str d22, [x1, #5376]
	str d19, [x1, #10752]
	str d18, [x1, #16128]
	str d16, [x1, #21504]
	str d6, [x1, #26880]
	str d4, [x1, #32256]
	str d2, [x1, x28]
	b.ne .L0
