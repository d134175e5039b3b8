	add x6, x17, x0, lsl #3
	add x7, x23, x6, lsl #2
	ldp q25, q24, [x7]
	ldp q23, q22, [x7]
	ldp q21, q20, [x7]
	ldp q19, q18, [x7]
	ldp q17, q16, [x7]
	ldp q7, q6, [x7]
	ldp q5, q4, [x7]
	ldp q3, q2, [x7]
	mov w27, #63744
	add x19, x3, x0, lsl #3
	ldr d26, [x19]
	ldr d27, [x19, #5760]
	ldr d28, [x19, #11520]
	ldr d29, [x19, #17280]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	mov w7, #2560
	madd x7, x0, x7, x18
	ldp q27, q29, [x7]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #32]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #64]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #96]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x19, #96]
	ldr d27, [x19, #5856]
	ldr d28, [x19, #11616]
	ldr d29, [x19, #17376]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x7, #128]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #160]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #192]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #224]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x19, #192]
	ldr d27, [x19, #5952]
	ldr d28, [x19, #11712]
	ldr d29, [x19, #17472]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x7, #256]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #288]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #320]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #352]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x19, #288]
	ldr d27, [x19, #6048]
	ldr d28, [x19, #11808]
	ldr d29, [x19, #17568]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x7, #384]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #416]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #448]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #480]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x19, #384]
	ldr d27, [x19, #6144]
	ldr d28, [x19, #11904]
	ldr d29, [x19, #17664]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldp q27, q29, [x7, #512]
	sdot v25.4s, v27.16b, v28.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #544]
	sdot v23.4s, v27.16b, v28.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #576]
	sdot v21.4s, v27.16b, v28.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q27, q29, [x7, #608]
	sdot v19.4s, v27.16b, v28.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr d26, [x19, #23040]
	ldr d27, [x19, #28800]
	mov w29, #34560
	ldr d28, [x19, x29]
	ldr d29, [x19, x24]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldp q28, q29, [x7, #640]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #672]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #704]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #736]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #768]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #800]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #832]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #864]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, #23136]
	ldr d27, [x19, #28896]
	mov w29, #34656
	ldr d28, [x19, x29]
	mov w29, #40416
	ldr d29, [x19, x29]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldp q28, q29, [x7, #896]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #928]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #960]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldp q28, q29, [x7, #992]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x7, #1024]
	ldr q29, [x7, #1040]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x7, #1056]
	ldr q29, [x7, #1072]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x7, #1088]
	ldr q29, [x7, #1104]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x7, #1120]
	ldr q29, [x7, #1136]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, #23232]
	ldr d27, [x19, #28992]
	mov w29, #34752
	ldr d28, [x19, x29]
	mov w29, #40512
	ldr d29, [x19, x29]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x7, #1152]
	ldr q29, [x7, #1168]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x7, #1184]
	ldr q29, [x7, #1200]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x7, #1216]
	ldr q29, [x7, #1232]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x7, #1248]
	ldr q29, [x7, #1264]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x7, #1280]
	ldr q29, [x7, #1296]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x7, #1312]
	ldr q29, [x7, #1328]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x7, #1344]
	ldr q29, [x7, #1360]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x7, #1376]
	ldr q29, [x7, #1392]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, #23328]
	ldr d27, [x19, #29088]
	mov w29, #34848
	ldr d28, [x19, x29]
	mov w29, #40608
	ldr d29, [x19, x29]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x7, #1408]
	ldr q29, [x7, #1424]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x7, #1440]
	ldr q29, [x7, #1456]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x7, #1472]
	ldr q29, [x7, #1488]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x7, #1504]
	ldr q29, [x7, #1520]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x7, #1536]
	ldr q29, [x7, #1552]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x7, #1568]
	ldr q29, [x7, #1584]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x7, #1600]
	ldr q29, [x7, #1616]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x7, #1632]
	ldr q29, [x7, #1648]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, #23424]
	ldr d27, [x19, #29184]
	mov w29, #34944
	ldr d28, [x19, x29]
	mov w29, #40704
	ldr d29, [x19, x29]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v27.8h, v26.8h, v28.8h
	zip2 v26.8h, v26.8h, v28.8h
	ldr q28, [x7, #1664]
	ldr q29, [x7, #1680]
	sdot v25.4s, v28.16b, v27.16b
	sdot v24.4s, v29.16b, v26.16b
	ldr q28, [x7, #1696]
	ldr q29, [x7, #1712]
	sdot v23.4s, v28.16b, v27.16b
	sdot v22.4s, v29.16b, v26.16b
	ldr q28, [x7, #1728]
	ldr q29, [x7, #1744]
	sdot v21.4s, v28.16b, v27.16b
	sdot v20.4s, v29.16b, v26.16b
	ldr q28, [x7, #1760]
	ldr q29, [x7, #1776]
	sdot v19.4s, v28.16b, v27.16b
	sdot v18.4s, v29.16b, v26.16b
	ldr q28, [x7, #1792]
	ldr q29, [x7, #1808]
	sdot v17.4s, v28.16b, v27.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q28, [x7, #1824]
	ldr q29, [x7, #1840]
	sdot v7.4s, v28.16b, v27.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q28, [x7, #1856]
	ldr q29, [x7, #1872]
	sdot v5.4s, v28.16b, v27.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q28, [x7, #1888]
	ldr q29, [x7, #1904]
	sdot v3.4s, v28.16b, v27.16b
	sdot v2.4s, v29.16b, v26.16b
	mov w29, #46080
	ldr d26, [x19, x29]
	ldr d27, [x19, x2]
	ldr d28, [x19, x13]
	ldr d29, [x19, x14]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x7, #1920]
	ldr q29, [x7, #1936]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x7, #1952]
	ldr q29, [x7, #1968]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x7, #1984]
	ldr q29, [x7, #2000]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x7, #2016]
	ldr q29, [x7, #2032]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, x1]
	ldr d27, [x19, x5]
	ldr d28, [x19, x12]
	ldr d29, [x19, x11]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x7, #2048]
	ldr q29, [x7, #2064]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x7, #2080]
	ldr q29, [x7, #2096]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x7, #2112]
	ldr q29, [x7, #2128]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x7, #2144]
	ldr q29, [x7, #2160]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, x15]
	ldr d27, [x19, x16]
	ldr d28, [x19, x20]
	ldr d29, [x19, x21]
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x7, #2176]
	ldr q29, [x7, #2192]
	sdot v17.4s, v27.16b, v28.16b
	sdot v16.4s, v29.16b, v26.16b
	ldr q27, [x7, #2208]
	ldr q29, [x7, #2224]
	sdot v7.4s, v27.16b, v28.16b
	sdot v6.4s, v29.16b, v26.16b
	ldr q27, [x7, #2240]
	ldr q29, [x7, #2256]
	sdot v5.4s, v27.16b, v28.16b
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x7, #2272]
	ldr q29, [x7, #2288]
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	ldr d26, [x19, x8]
	ldr d27, [x19, x25]
	ldr d28, [x19, x28]
	ldr d29, [x19, x30]
	zip1 v27.16b, v26.16b, v27.16b
	zip1 v28.16b, v28.16b, v29.16b
	zip1 v26.8h, v27.8h, v28.8h
	zip2 v27.8h, v27.8h, v28.8h
	ldr q28, [x7, #2304]
	ldr q29, [x7, #2320]
	sdot v17.4s, v28.16b, v26.16b
	sdot v16.4s, v29.16b, v27.16b
	ldr q28, [x7, #2336]
	ldr q29, [x7, #2352]
	sdot v7.4s, v28.16b, v26.16b
	sdot v6.4s, v29.16b, v27.16b
	ldr q28, [x7, #2368]
	ldr q29, [x7, #2384]
	sdot v5.4s, v28.16b, v26.16b
	sdot v4.4s, v29.16b, v27.16b
	fadd v25.4s, v25.4s, v0.4s
	fadd v24.4s, v24.4s, v0.4s
	ldr q28, [x7, #2400]
	ldr q29, [x7, #2416]
	fadd v23.4s, v23.4s, v0.4s
	sdot v3.4s, v28.16b, v26.16b
	sdot v2.4s, v29.16b, v27.16b
	ldr d26, [x19, x9]
	ldr d27, [x19, x10]
	fadd v22.4s, v22.4s, v0.4s
	ldr d28, [x19, x22]
	ldr d29, [x19, x27]
	fadd v21.4s, v21.4s, v0.4s
	zip1 v26.16b, v26.16b, v27.16b
	zip1 v27.16b, v28.16b, v29.16b
	zip1 v28.8h, v26.8h, v27.8h
	zip2 v26.8h, v26.8h, v27.8h
	ldr q27, [x7, #2432]
	ldr q29, [x7, #2448]
	sdot v17.4s, v27.16b, v28.16b
	fadd v20.4s, v20.4s, v0.4s
	sdot v16.4s, v29.16b, v26.16b
	fadd v19.4s, v19.4s, v0.4s
	fadd v18.4s, v18.4s, v0.4s
	ldr q27, [x7, #2464]
	ldr q29, [x7, #2480]
	sdot v7.4s, v27.16b, v28.16b
	fadd v17.4s, v17.4s, v0.4s
	sdot v6.4s, v29.16b, v26.16b
	fadd v16.4s, v16.4s, v0.4s
	fadd v7.4s, v7.4s, v0.4s
	ldr q27, [x7, #2496]
	ldr q29, [x7, #2512]
	sdot v5.4s, v27.16b, v28.16b
	fadd v6.4s, v6.4s, v0.4s
	sdot v4.4s, v29.16b, v26.16b
	ldr q27, [x7, #2528]
	ldr q29, [x7, #2544]
	mov w7, #37632
	fadd v5.4s, v5.4s, v0.4s
	fadd v4.4s, v4.4s, v0.4s
	sdot v3.4s, v27.16b, v28.16b
	sdot v2.4s, v29.16b, v26.16b
	add x6, x26, x6, lsl #2
	fadd v3.4s, v3.4s, v0.4s
	ldp q26, q27, [x6]
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
	add x6, x4, x0, lsl #3
	sqxtn v3.8b, v24.8h
	str d3, [x6]
	sqxtn v3.8b, v22.8h
	str d3, [x6, #5376]
	sqxtn v3.8b, v20.8h
	sqxtn v5.8b, v18.8h
	str d3, [x6, #10752]
	sqxtn v3.8b, v16.8h
	sqxtn v6.8b, v6.8h
	str d5, [x6, #16128]
	str d3, [x6, #21504]
	sqxtn v3.8b, v4.8h
	str d6, [x6, #26880]
	sqxtn v2.8b, v2.8h
	str d2, [x6, x7]
	str d3, [x6, #32256]
	add x0, x0, #1
	cmp x0, #3
	b.ne .L0
