	add x4, x16, x18, lsl #3
	add x6, x23, x4, lsl #2
	ldp q25, q24, [x6]
	ldp q23, q22, [x6]
	ldp q21, q20, [x6]
	ldp q19, q18, [x6]
	ldp q17, q16, [x6]
	ldp q7, q6, [x6]
	ldp q5, q4, [x6]
	ldp q3, q2, [x6]
	mov w28, #63744
	add x7, x0, x18, lsl #3
	ldr d26, [x7]
	ldr d27, [x7, #5760]
	ldr d28, [x7, #11520]
	ldr d29, [x7, #17280]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	mov w6, #2560
	madd x6, x18, x6, x17
	ldp q27, q29, [x6]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #32]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #64]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #96]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x7, #96]
	ldr d27, [x7, #5856]
	ldr d28, [x7, #11616]
	ldr d29, [x7, #17376]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x6, #128]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #160]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #192]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #224]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x7, #192]
	ldr d27, [x7, #5952]
	ldr d28, [x7, #11712]
	ldr d29, [x7, #17472]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x6, #256]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #288]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #320]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #352]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x7, #288]
	ldr d27, [x7, #6048]
	ldr d28, [x7, #11808]
	ldr d29, [x7, #17568]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x6, #384]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #416]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #448]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #480]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x7, #384]
	ldr d27, [x7, #6144]
	ldr d28, [x7, #11904]
	ldr d29, [x7, #17664]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x6, #512]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #544]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #576]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x6, #608]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x7, #23040]
	ldr d27, [x7, #28800]
	mov w30, #34560
	ldr d28, [x7, x30]
	ldr d29, [x7, x22]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldp q28, q29, [x6, #640]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #672]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #704]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #736]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #768]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #800]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #832]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #864]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, #23136]
	ldr d27, [x7, #28896]
	mov w30, #34656
	ldr d28, [x7, x30]
	mov w30, #40416
	ldr d29, [x7, x30]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldp q28, q29, [x6, #896]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #928]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #960]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q28, q29, [x6, #992]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x6, #1024]
	ldr q29, [x6, #1040]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x6, #1056]
	ldr q29, [x6, #1072]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x6, #1088]
	ldr q29, [x6, #1104]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x6, #1120]
	ldr q29, [x6, #1136]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, #23232]
	ldr d27, [x7, #28992]
	mov w30, #34752
	ldr d28, [x7, x30]
	mov w30, #40512
	ldr d29, [x7, x30]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x6, #1152]
	ldr q29, [x6, #1168]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x6, #1184]
	ldr q29, [x6, #1200]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x6, #1216]
	ldr q29, [x6, #1232]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x6, #1248]
	ldr q29, [x6, #1264]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x6, #1280]
	ldr q29, [x6, #1296]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x6, #1312]
	ldr q29, [x6, #1328]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x6, #1344]
	ldr q29, [x6, #1360]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x6, #1376]
	ldr q29, [x6, #1392]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, #23328]
	ldr d27, [x7, #29088]
	mov w30, #34848
	ldr d28, [x7, x30]
	mov w30, #40608
	ldr d29, [x7, x30]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x6, #1408]
	ldr q29, [x6, #1424]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x6, #1440]
	ldr q29, [x6, #1456]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x6, #1472]
	ldr q29, [x6, #1488]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x6, #1504]
	ldr q29, [x6, #1520]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x6, #1536]
	ldr q29, [x6, #1552]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x6, #1568]
	ldr q29, [x6, #1584]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x6, #1600]
	ldr q29, [x6, #1616]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x6, #1632]
	ldr q29, [x6, #1648]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, #23424]
	ldr d27, [x7, #29184]
	mov w30, #34944
	ldr d28, [x7, x30]
	mov w30, #40704
	ldr d29, [x7, x30]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x6, #1664]
	ldr q29, [x6, #1680]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x6, #1696]
	ldr q29, [x6, #1712]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x6, #1728]
	ldr q29, [x6, #1744]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x6, #1760]
	ldr q29, [x6, #1776]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x6, #1792]
	ldr q29, [x6, #1808]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x6, #1824]
	ldr q29, [x6, #1840]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x6, #1856]
	ldr q29, [x6, #1872]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x6, #1888]
	ldr q29, [x6, #1904]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	mov w30, #46080
	ldr d26, [x7, x30]
	ldr d27, [x7, x11]
	ldr d28, [x7, x2]
	ldr d29, [x7, x14]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x6, #1920]
	ldr q29, [x6, #1936]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x6, #1952]
	ldr q29, [x6, #1968]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x6, #1984]
	ldr q29, [x6, #2000]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x6, #2016]
	ldr q29, [x6, #2032]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, x1]
	ldr d27, [x7, x5]
	ldr d28, [x7, x12]
	ldr d29, [x7, x10]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x6, #2048]
	ldr q29, [x6, #2064]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x6, #2080]
	ldr q29, [x6, #2096]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x6, #2112]
	ldr q29, [x6, #2128]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x6, #2144]
	ldr q29, [x6, #2160]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, x13]
	ldr d27, [x7, x15]
	ldr d28, [x7, x19]
	ldr d29, [x7, x20]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x6, #2176]
	ldr q29, [x6, #2192]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x6, #2208]
	ldr q29, [x6, #2224]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x6, #2240]
	ldr q29, [x6, #2256]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x6, #2272]
	ldr q29, [x6, #2288]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x7, x9]
	ldr d27, [x7, x24]
	ldr d28, [x7, x27]
	ldr d29, [x7, x29]
	zip1 v27.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v26.8h, v27.8h, v28.8h
	zip2 v27.8h, v27.8h, v28.8h
	ldr q28, [x6, #2304]
	ldr q29, [x6, #2320]
	sdot v17.4s, v28.16b, v26.16b
	sdot v16.4s, v29.16b, v27.16b
	ldr q28, [x6, #2336]
	ldr q29, [x6, #2352]
	sdot v7.4s, v28.16b, v26.16b
	sdot v6.4s, v29.16b, v27.16b
	ldr q28, [x6, #2368]
	ldr q29, [x6, #2384]
	sdot v5.4s, v28.16b, v26.16b
	sdot v4.4s, v29.16b, v27.16b
	fadd v25.4s, v25.4s, v0.4s
	fadd v24.4s, v24.4s, v0.4s
	ldr q28, [x6, #2400]
	ldr q29, [x6, #2416]
	fadd v23.4s, v23.4s, v0.4s
	sdot v3.4s, v28.16b, v26.16b
	sdot v2.4s, v29.16b, v27.16b
	ldr d26, [x7, x8]
	ldr d27, [x7, x21]
	fadd v22.4s, v22.4s, v0.4s
	ldr d28, [x7, x26]
	ldr d29, [x7, x28]
	fadd v21.4s, v21.4s, v0.4s
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x6, #2432]
	ldr q29, [x6, #2448]
	sdot v17.4s, v27.16b, v28.16b
	fadd v20.4s, v20.4s, v0.4s
	sdot v16.4s, v29.16b, v26.16b
	fadd v19.4s, v19.4s, v0.4s
	fadd v18.4s, v18.4s, v0.4s
	ldr q27, [x6, #2464]
	ldr q29, [x6, #2480]
	sdot v7.4s, v27.16b, v28.16b
	fadd v17.4s, v17.4s, v0.4s
	sdot v6.4s, v29.16b, v26.16b
	fadd v16.4s, v16.4s, v0.4s
	fadd v7.4s, v7.4s, v0.4s
	ldr q27, [x6, #2496]
	ldr q29, [x6, #2512]
	sdot v5.4s, v27.16b, v28.16b
	fadd v6.4s, v6.4s, v0.4s
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x6, #2528]
	ldr q29, [x6, #2544]
	mov w6, #37632
	fadd v5.4s, v5.4s, v0.4s
	fadd v4.4s, v4.4s, v0.4s
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	add x4, x25, x4, lsl #2
	fadd v3.4s, v3.4s, v0.4s
	ldp q26, q27, [x4]
	fadd v2.4s, v2.4s, v0.4s
	fmulx v25.4s, v25.4s, v26.4s
	fmulx v24.4s, v24.4s, v27.4s
	fmulx v23.4s, v23.4s, v26.4s
	fmulx v22.4s, v22.4s, v27.4s
	fmulx v21.4s, v21.4s, v26.4s
	fmulx v20.4s, v20.4s, v27.4s
	fmulx v19.4s, v19.4s, v26.4s
	fmulx v18.4s, v18.4s, v27.4s
	fmulx v17.4s, v17.4s, v26.4s
	fmulx v16.4s, v16.4s, v27.4s
	fmulx v7.4s, v7.4s, v26.4s
	fmulx v6.4s, v6.4s, v27.4s
	fmulx v5.4s, v5.4s, v26.4s
	fmulx v4.4s, v4.4s, v27.4s
	fmulx v3.4s, v3.4s, v26.4s
	fmulx v2.4s, v2.4s, v27.4s
	fadd v24.4s, v24.4s, v1.4s
	fadd v25.4s, v25.4s, v1.4s
	fadd v22.4s, v22.4s, v1.4s
	fadd v23.4s, v23.4s, v1.4s
	fadd v20.4s, v20.4s, v1.4s
	fadd v21.4s, v21.4s, v1.4s
	fadd v18.4s, v18.4s, v1.4s
	fadd v19.4s, v19.4s, v1.4s
	fadd v16.4s, v16.4s, v1.4s
	fadd v17.4s, v17.4s, v1.4s
	fadd v6.4s, v6.4s, v1.4s
	fadd v7.4s, v7.4s, v1.4s
	fadd v4.4s, v4.4s, v1.4s
	fadd v5.4s, v5.4s, v1.4s
	fadd v2.4s, v2.4s, v1.4s
	fadd v3.4s, v3.4s, v1.4s
	uzp1 v24.8h, v25.8h, v24.8h
	uzp1 v22.8h, v23.8h, v22.8h
	uzp1 v20.8h, v21.8h, v20.8h
	uzp1 v18.8h, v19.8h, v18.8h
	uzp1 v16.8h, v17.8h, v16.8h
	uzp1 v6.8h, v7.8h, v6.8h
	uzp1 v4.8h, v5.8h, v4.8h
	uzp1 v2.8h, v3.8h, v2.8h
	add x4, x3, x18, lsl #3
	sqxtn v3.8b, v24.8h
	str d3, [x4]
	sqxtn v3.8b, v22.8h
	str d3, [x4, #5376]
	sqxtn v3.8b, v20.8h
	sqxtn v5.8b, v18.8h
	str d3, [x4, #10752]
	sqxtn v3.8b, v16.8h
	sqxtn v6.8b, v6.8h
	str d5, [x4, #16128]
	str d3, [x4, #21504]
	sqxtn v3.8b, v4.8h
	str d6, [x4, #26880]
	sqxtn v2.8b, v2.8h
	str d2, [x4, x6]
	str d3, [x4, #32256]
	add x18, x18, #1
	cmp x18, #3
	b.ne .L0
