# SPDX-License-Identifier: Apache-2.0
"""The A64 mnemonics known to the ISA check, by required feature, as capstone 5 spells them.

A mnemonic is in several sets if several extensions have it (`add` of NEON and of SVE); `isa.py` distinguishes the
instructions by their operands. Instructions that only an operating system may execute, or that no profile can have, are
in no set.
Source: Arm ARM DDI 0487. Checked against llvm-mc 19 on 40 million random words: LLVM decodes the instructions of a
set with its feature, and refuses them without it.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Armv8.0-A with NEON, and hints (including pointer authentication and branch targets), which older cores skip.
BASE = _names(
    """
    abs adc adcs add addhn addhn2 addp adds addv adr adrp and ands asr autia1716 autiasp autiaz
    autib1716 autibsp autibz b b.al b.eq b.ge b.gt b.hi b.hs b.le b.lo b.ls b.lt b.mi b.ne b.nv b.pl
    b.vc b.vs bfc bfi bfxil bic bics bif bit bl blr br brk bsl bti cbnz cbz ccmn ccmp cinc cinv clrex
    cls clz cmeq cmge cmgt cmhi cmhs cmle cmlt cmn cmp cmtst cneg cnt csdb csel cset csetm csinc csinv
    csneg dgh dmb dsb dup eon eor esb ext extr fabd fabs facge facgt fadd faddp fccmp fccmpe fcmeq fcmge
    fcmgt fcmle fcmlt fcmp fcmpe fcsel fcvt fcvtas fcvtau fcvtl fcvtl2 fcvtms fcvtmu fcvtn fcvtn2 fcvtns
    fcvtnu fcvtps fcvtpu fcvtxn fcvtxn2 fcvtzs fcvtzu fdiv fmadd fmax fmaxnm fmaxnmp fmaxnmv fmaxp fmaxv
    fmin fminnm fminnmp fminnmv fminp fminv fmla fmls fmov fmsub fmul fmulx fneg fnmadd fnmsub fnmul
    frecpe frecps frecpx frinta frinti frintm frintn frintp frintx frintz frsqrte frsqrts fsqrt fsub
    hint isb ld1 ld1r ld2 ld2r ld3 ld3r ld4 ld4r ldar ldarb ldarh ldaxp ldaxr ldaxrb ldaxrh ldnp ldp
    ldpsw ldr ldrb ldrh ldrsb ldrsh ldrsw ldtr ldtrb ldtrh ldtrsb ldtrsh ldtrsw ldur ldurb ldurh ldursb
    ldursh ldursw ldxp ldxr ldxrb ldxrh lsl lsr madd mla mls mneg mov movi movk movn movz mrs msr msub
    mul mvn mvni neg negs ngc ngcs nop not orn orr pacia1716 paciasp paciaz pacib1716 pacibsp pacibz
    pmul pmull pmull2 prfm prfum raddhn raddhn2 rbit ret rev rev16 rev32 rev64 ror rshrn rshrn2 rsubhn
    rsubhn2 saba sabal sabal2 sabd sabdl sabdl2 sadalp saddl saddl2 saddlp saddlv saddw saddw2 sbc sbcs
    sbfiz sbfx scvtf sdiv sev sevl shadd shl shll shll2 shrn shrn2 shsub sli smaddl smax smaxp smaxv
    smin sminp sminv smlal smlal2 smlsl smlsl2 smnegl smov smsubl smulh smull smull2 sqabs sqadd sqdmlal
    sqdmlal2 sqdmlsl sqdmlsl2 sqdmulh sqdmull sqdmull2 sqneg sqrdmulh sqrshl sqrshrn sqrshrn2 sqrshrun
    sqrshrun2 sqshl sqshlu sqshrn sqshrn2 sqshrun sqshrun2 sqsub sqxtn sqxtn2 sqxtun sqxtun2 srhadd sri
    srshl srshr srsra sshl sshll sshll2 sshr ssra ssubl ssubl2 ssubw ssubw2 st1 st2 st3 st4 stlr stlrb
    stlrh stlxp stlxr stlxrb stlxrh stnp stp str strb strh sttr sttrb sttrh stur sturb sturh stxp stxr
    stxrb stxrh sub subhn subhn2 subs suqadd sxtb sxth sxtl sxtl2 sxtw tbl tbnz tbx tbz trn1 trn2 tst
    uaba uabal uabal2 uabd uabdl uabdl2 uadalp uaddl uaddl2 uaddlp uaddlv uaddw uaddw2 ubfiz ubfx ucvtf
    udf udiv uhadd uhsub umaddl umax umaxp umaxv umin uminp uminv umlal umlal2 umlsl umlsl2 umnegl umov
    umsubl umulh umull umull2 uqadd uqrshl uqrshrn uqrshrn2 uqshl uqshrn uqshrn2 uqsub uqxtn uqxtn2
    urecpe urhadd urshl urshr ursqrte ursra ushl ushll ushll2 ushr usqadd usra usubl usubl2 usubw usubw2
    uxtb uxth uxtl uxtl2 uzp1 uzp2 wfe xpaclri xtn xtn2 yield zip1 zip2
    """
)

# Mnemonics among BASE and FEATURES that also need fullfp16 if an operand has half precision.
HALF = _names(
    """
    fabd fabs facge facgt fadd faddp fcadd fccmp fccmpe fcmeq fcmge fcmgt fcmla fcmle fcmlt fcmp fcmpe
    fcsel fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtzs fcvtzu fdiv fmadd fmax fmaxnm
    fmaxnmp fmaxnmv fmaxp fmaxv fmin fminnm fminnmp fminnmv fminp fminv fmla fmls fmov fmsub fmul fmulx
    fneg fnmadd fnmsub fnmul frecpe frecps frecpx frinta frinti frintm frintn frintp frintx frintz
    frsqrte frsqrts fsqrt fsub scvtf ucvtf
    """
)

_SIZES = ("", "b", "h")
_ORDERS = ("", "a", "l", "al")
_LOAD_OPS = ("swp", "ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin")
_STORE_OPS = ("stadd", "stclr", "steor", "stset", "stsmax", "stsmin", "stumax", "stumin")
_LSE = frozenset(
    {
        *(f"{op}{order}{size}" for op in (*_LOAD_OPS, "cas") for order in _ORDERS for size in _SIZES),
        *(f"{op}{order}{size}" for op in _STORE_OPS for order in ("", "l") for size in _SIZES),
        *(f"casp{order}" for order in _ORDERS),
    }
)

# Scalar and NEON forms that need a feature.
FEATURES: dict[str, frozenset[str]] = {
    "aes": _names("aesd aese aesimc aesmc"),
    "altnzcv": _names("axflag xaflag"),
    "bf16": _names("bfcvt bfcvtn bfcvtn2 bfdot bfmlalb bfmlalt bfmmla"),
    "complxnum": _names("fcadd fcmla"),
    "crc": _names("crc32b crc32cb crc32ch crc32cw crc32cx crc32h crc32w crc32x"),
    "dotprod": _names("sdot udot"),
    "flagm": _names("cfinv rmif setf16 setf8"),
    "fp16fml": _names("fmlal fmlal2 fmlsl fmlsl2"),
    "fptoint": _names("frint32x frint32z frint64x frint64z"),
    "i8mm": _names("smmla sudot ummla usdot usmmla"),
    "jsconv": _names("fjcvtzs"),
    "lse": _LSE,
    "pauth": _names(
        """
        autda autdb autdza autdzb autia autib autiza autizb blraa blraaz blrab blrabz braa braaz brab brabz ldraa
        ldrab pacda pacdb pacdza pacdzb pacga pacia pacib paciza pacizb retaa retab xpacd xpaci
        """
    ),
    "rcpc": _names("ldapr ldaprb ldaprh"),
    "rcpc-immo": _names("ldapur ldapurb ldapurh ldapursb ldapursh ldapursw stlur stlurb stlurh"),
    "rdm": _names("sqrdmlah sqrdmlsh"),
    "sha2": _names("sha1c sha1h sha1m sha1p sha1su0 sha1su1 sha256h sha256h2 sha256su0 sha256su1"),
    "sha3": _names("bcax eor3 rax1 sha512h sha512h2 sha512su0 sha512su1 xar"),
    "sm4": _names("sm3partw1 sm3partw2 sm3ss1 sm3tt1a sm3tt1b sm3tt2a sm3tt2b sm4e sm4ekey"),
}

# SVE forms, on z and p registers, or counting elements of them.
SVE = _names(
    """
    abs add addpl addvl adr and ands andv asr asrd asrr bic bics brka brkas brkb brkbs brkn brkns brkpa
    brkpas brkpb brkpbs clasta clastb cls clz cmpeq cmpge cmpgt cmphi cmphs cmple cmplo cmpls cmplt
    cmpne cnot cnt cntb cntd cnth cntp cntw compact ctermeq ctermne decb decd dech decp decw dupm eor
    eors eorv ext fabd fabs facge facgt fadd fadda faddv fcadd fcmeq fcmge fcmgt fcmla fcmle fcmlt fcmne
    fcmuo fcvt fcvtzs fcvtzu fdiv fdivr fexpa fmad fmax fmaxnm fmaxnmv fmaxv fmin fminnm fminnmv fminv
    fmla fmls fmov fmsb fmul fmulx fneg fnmad fnmla fnmls fnmsb frecpe frecps frecpx frinta frinti
    frintm frintn frintp frintx frintz frsqrte frsqrts fscale fsqrt fsub fsubr ftmad ftsmul ftssel incb
    incd inch incp incw index insr lasta lastb ld1b ld1d ld1h ld1rb ld1rd ld1rh ld1rqb ld1rqd ld1rqh
    ld1rqw ld1rsb ld1rsh ld1rsw ld1rw ld1sb ld1sh ld1sw ld1w ld2b ld2d ld2h ld2w ld3b ld3d ld3h ld3w
    ld4b ld4d ld4h ld4w ldff1b ldff1d ldff1h ldff1sb ldff1sh ldff1sw ldff1w ldnf1b ldnf1d ldnf1h ldnf1sb
    ldnf1sh ldnf1sw ldnf1w ldnt1b ldnt1d ldnt1h ldnt1w ldr lsl lslr lsr lsrr mad mla mls mov movprfx
    movs msb mul nand nands neg nor nors not nots orn orns orr orrs orv pfalse pfirst pnext prfb prfd
    prfh prfw ptest ptrue ptrues punpkhi rbit rdffr rdffrs rdvl rev revb revh revw sabd saddv scvtf sdiv
    sdivr sdot sel setffr smax smaxv smin sminv smulh splice sqadd sqdecb sqdecd sqdech sqdecp sqdecw
    sqincb sqincd sqinch sqincp sqincw sqsub st1b st1d st1h st1w st2b st2d st2h st2w st3b st3d st3h st3w
    st4b st4d st4h st4w stnt1b stnt1d stnt1h stnt1w str sub subr sunpkhi sunpklo sxtb sxth sxtw tbl trn1
    trn2 uabd uaddv ucvtf udiv udivr udot umax umaxv umin uminv umulh uqadd uqdecb uqdecd uqdech uqdecp
    uqdecw uqincb uqincd uqinch uqincp uqincw uqsub uunpkhi uunpklo uxtb uxth uxtw uzp1 uzp2 whilele
    whilelo whilels whilelt wrffr zip1 zip2
    """
)

# Mnemonics of SVE2; isa.py distinguishes the forms of those that SVE also has.
SVE2 = _names(
    """
    adclb adclt addhnb addhnt addp bcax bsl bsl1n bsl2n cadd cdot cmla eor3 eorbt eortb ext faddp fcvtlt
    fcvtnt fcvtx fcvtxnt flogb fmaxnmp fmaxp fminnmp fminp fmlalb fmlalt fmlslb fmlslt histcnt histseg
    ldnt1b ldnt1d ldnt1h ldnt1sb ldnt1sh ldnt1sw ldnt1w match mla mls mul nbsl nmatch pmul pmullb pmullt
    raddhnb raddhnt rshrnb rshrnt rsubhnb rsubhnt saba sabalb sabalt sabdlb sabdlt sadalp saddlb saddlbt
    saddlt saddwb saddwt sbclb sbclt shadd shrnb shrnt shsub shsubr sli smaxp sminp smlalb smlalt smlslb
    smlslt smulh smullb smullt splice sqabs sqadd sqcadd sqdmlalb sqdmlalbt sqdmlalt sqdmlslb sqdmlslbt
    sqdmlslt sqdmulh sqdmullb sqdmullt sqneg sqrdcmlah sqrdmlah sqrdmlsh sqrdmulh sqrshl sqrshlr
    sqrshrnb sqrshrnt sqrshrunb sqrshrunt sqshl sqshlr sqshlu sqshrnb sqshrnt sqshrunb sqshrunt sqsub
    sqsubr sqxtnb sqxtnt sqxtunb sqxtunt srhadd sri srshl srshlr srshr srsra sshllb sshllt ssra ssublb
    ssublbt ssublt ssubltb ssubwb ssubwt stnt1b stnt1d stnt1h stnt1w subhnb subhnt suqadd tbl tbx uaba
    uabalb uabalt uabdlb uabdlt uadalp uaddlb uaddlt uaddwb uaddwt uhadd uhsub uhsubr umaxp uminp umlalb
    umlalt umlslb umlslt umulh umullb umullt uqadd uqrshl uqrshlr uqrshrnb uqrshrnt uqshl uqshlr uqshrnb
    uqshrnt uqsub uqsubr uqxtnb uqxtnt urecpe urhadd urshl urshlr urshr ursqrte ursra ushllb ushllt
    usqadd usra usublb usublt usubwb usubwt whilege whilegt whilehi whilehs whilerw whilewr xar
    """
)

# SVE forms that need a second feature.
SVE_WITH: dict[str, frozenset[str]] = {
    "bf16": _names("bfcvt bfcvtnt bfdot bfmlalb bfmlalt bfmmla"),
    "i8mm": _names("smmla sudot ummla usdot usmmla"),
}

# Mnemonics of SME: on the array za, and additions to SVE in streaming mode.
SME = _names(
    """
    addha addva bfmopa bfmops fmopa fmops ld1q psel revd sclamp smopa smops smstart smstop st1q
    sumopa sumops uclamp umopa umops usmopa usmops zero
    """
)
