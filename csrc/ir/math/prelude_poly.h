/* Written by benchmarks/ulp/fit.py, which says what each polynomial approximates: the part of
 * the math header that is numbers.  Included by, or pasted after, prelude.h. */

/* Column k of the three: 2^16k * 2/pi modulo 4 in three doubles. */
DLC_TABLE double dlc_two_over_pi[3][62] = {
    {
        0x1.45f306dc9c882p-1, 0x1.836e4e441529fp+0, 0x1.27220a94fe13ap+1, 0x1.529fc2757d1f5p-4,
        0x1.fc2757d1f534dp+0, 0x1.abe8fa9a6ee06p+1, 0x1.f534ddc0db629p+0, 0x1.bb81b6c52b327p-1,
        0x1.b6c52b3278872p-1, 0x1.4acc9e21c820fp+1, 0x1.3c439041fe516p+0, 0x1.c820ff28b1d5ep+1,
        0x1.fe5163abdebbcp+0, 0x1.63abdebbc561bp+0, 0x1.ef5de2b0db923p+1, 0x1.e2b0db92371d2p+1,
        0x1.b7246e3a424ddp+0, 0x1.b8e909374b801p-2, 0x1.2126e97003249p+1, 0x1.d2e006492eeap+0,
        0x1.924bba8274648p-6, 0x1.2eea09d1921cfp+0, 0x1.04e8c90e7f0efp+1, 0x1.921cfe1deb1cbp+0,
        0x1.fc3bd63962534p-1, 0x1.eb1cb129a73eep+0, 0x1.62534e7dd1046p-1, 0x1.a73ee88235f52p+0,
        0x1.74411afa975dap+1, 0x1.1afa975da2427p+1, 0x1.2ebb4484e99c7p+0, 0x1.a24274ce38135p+1,
        0x1.d338e04d68befp-1, 0x1.c09ad17df904ep-2, 0x1.5a2fbf209cc8ep+1, 0x1.bf209cc8eb1ccp+1,
        0x1.3991d63983533p+0, 0x1.d639835339f49p+0, 0x1.835339f49c845p+0, 0x1.9cfa4e422fc5dp+1,
        0x1.3908bf177bf25p-1, 0x1.7e2ef7e4a0ec7p-2, 0x1.defc941d8ffc4p+1, 0x1.283b1ff897ffdp+0,
        0x1.8ffc4bffef02cp+1, 0x1.2fffbc0b301fdp-1, 0x1.ef02cc07f7978p+1, 0x1.980fef2f118b5p+0,
        0x1.f79788c5ad053p+1, 0x1.88c5ad05368fbp+1, 0x1.ad05368fb69b3p+1, 0x1.368fb69b3f679p+1,
        0x1.b69b3f6793e58p+1, 0x1.3f6793e584dbap+1, 0x1.93e584dba7a31p+1, 0x1.84dba7a31fb34p+1,
        0x1.a7a31fb34f2ffp+1, 0x1.1fb34f2ff516bp+1, 0x1.4f2ff516ba93dp+1, 0x1.f516ba93dd63fp+1,
        0x1.7527bac7ebe5fp+0, 0x1.dd63f5f2f8bd9p+1,
    },
    {
        0x1.4a7f09d5f47d4p-54, 0x1.84eafa3ea69bbp-53, 0x1.7d1f534ddc0dbp-52, 0x1.a6ee06db14accp-59,
        0x1.b81b6c52b3278p-53, 0x1.b6295993c439p-52,  0x1.664f10e4107f9p-54, 0x1.10e4107f9458ep-54,
        0x1.07f9458eaf7aep-58, 0x1.e5163abdebbc5p-52, 0x1.d5ef5de2b0db9p-55, 0x1.ebbc561b7246ep-52,
        0x1.586dc91b8e909p-54, 0x1.c91b8e909374bp-54, 0x1.c74849ba5c00cp-53, 0x1.26e9700324977p-55,
        0x1.700324977504ep-55, 0x1.24977504e8c9p-55,  0x1.dd413a32439fcp-53, 0x1.3a32439fc3bd6p-53,
        0x1.cfe1deb1cb129p-60, 0x1.c3bd63962534ep-53, 0x1.63962534e7dd1p-53, 0x1.29a73ee88235fp-56,
        0x1.cfba208d7d4bap-54, 0x1.1046bea5d7689p-53, 0x1.7d4baed1213a6p-54, 0x1.d768909d338ep-53,
        0x1.213a671c09ad1p-54, 0x1.338e04d68befcp-53, 0x1.35a2fbf209cc8p-59, 0x1.45f7e413991d6p-52,
        0x1.904e64758e60dp-54, 0x1.91d639835339fp-56, 0x1.639835339f49cp-52, 0x1.a99cfa4e422fcp-55,
        0x1.3e93908bf177bp-53, 0x1.908bf177bf25p-53,  0x1.f177bf250763fp-53, 0x1.df9283b1ff897p-52,
        0x1.d8ffc4bffef02p-59, 0x1.fc4bffef02ccp-55,  0x1.7ffde05980fefp-52, 0x1.c0b301fde5e23p-53,
        0x1.80fef2f118b5ap-52, 0x1.cbc462d6829b4p-54, 0x1.18b5a0a6d1f6dp-52, 0x1.414da3eda6cfdp-53,
        0x1.a3eda6cfd9e4fp-53, 0x1.a6cfd9e4f9613p-53, 0x1.ecf27cb09b74fp-52, 0x1.f2c26dd3d18fdp-54,
        0x1.36e9e8c7ecd3cp-53, 0x1.e8c7ecd3cbfd4p-53, 0x1.f669e5fea2d75p-52, 0x1.e5fea2d7527bap-52,
        0x1.45aea4f758fd7p-53, 0x1.527bac7ebe5f1p-52, 0x1.ac7ebe5f17b3dp-52, 0x1.7cbe2f67a0e73p-53,
        0x1.7b3d0739f78a5p-56, 0x1.d0739f78a5292p-52,
    },
    {
        0x1.a6ee06db14accp-107, 0x1.036d8a5664f1p-106,  0x1.8a5664f10e41p-106,
        0x1.3c439041fe516p-112, 0x1.0e4107f9458eap-106, 0x1.07f9458eaf7aep-106,
        0x1.163abdebbc561p-108, 0x1.5ef5de2b0db92p-107, 0x1.e2b0db92371d2p-111,
        0x1.86dc91b8e9093p-106, 0x1.1b8e909374b8p-110,  0x1.d2126e9700324p-107,
        0x1.ba5c00c925dd4p-109, 0x1.00324977504e8p-107, 0x1.24bba82746487p-106,
        0x1.413a32439fc3bp-109, 0x1.1921cfe1deb1cp-108, 0x1.cfe1deb1cb129p-108,
        0x1.deb1cb129a73ep-108, 0x1.cb129a73ee882p-108, 0x1.4e7dd1046bea5p-113,
        0x1.f74411afa975dp-107, 0x1.1afa975da2427p-111, 0x1.4baed1213a671p-110,
        0x1.da24274ce3813p-107, 0x1.3a671c09ad17dp-110, 0x1.c7026b45f7e41p-108,
        0x1.35a2fbf209cc8p-107, 0x1.f7e413991d639p-108, 0x1.04e64758e60d4p-106,
        0x1.d639835339f49p-112, 0x1.cc1a99cfa4e42p-107, 0x1.339f49c845f8bp-108,
        0x1.272117e2ef7e4p-110, 0x1.08bf177bf2507p-105, 0x1.77bf250763ff1p-109,
        0x1.e4a0ec7fe25ffp-106, 0x1.d8ffc4bffef02p-107, 0x1.e25fff7816603p-106,
        0x1.ffbc0b301fde5p-105, 0x1.980fef2f118b5p-112, 0x1.fde5e2316b414p-109,
        0x1.788c5ad05368fp-107, 0x1.6b414da3eda6cp-109, 0x1.4da3eda6cfd9ep-109,
        0x1.f6d367ecf27cbp-108, 0x1.b3f6793e584dbp-107, 0x1.3c9f2c26dd3d1p-106,
        0x1.2c26dd3d18fd9p-106, 0x1.ba7a31fb34f2fp-107, 0x1.18fd9a797fa8bp-106,
        0x1.34f2ff516ba93p-107, 0x1.7fa8b5d49eeb1p-106, 0x1.6ba93dd63f5f2p-107,
        0x1.3dd63f5f2f8bdp-107, 0x1.8fd7cbe2f67ap-105,  0x1.97c5ecf41ce7dp-106,
        0x1.ecf41ce7de294p-106, 0x1.ce7de294a4ba9p-110, 0x1.de294a4ba9afep-106,
        0x1.497535fdafd88p-111, 0x1.d4d7f6bf623f1p-105,
    },
};

/* Row k: 2/pi without its bits of weight 2^(2-26k) and more. */
DLC_TABLE double dlc_two_over_pi_f32[4][2] = {
    {
        0x1.45f306dc9c882p-1, 0x1.4a7f09d5f47d4p-54,
    },
    {
        0x1.b9391054a7f09p-26, 0x1.abe8fa9a6ee06p-79,
    },
    {
        0x1.529fc2757d1f5p-52, 0x1.a6ee06db14accp-107,
    },
    {
        0x1.d5f47d4d37703p-78, 0x1.b6295993c439p-132,
    },
};

/* On [-0.346574, 0.3465745]; error 2^-28.3. */
DLC_FN float
dlc_poly_exp_f32(float x)
{
    float p = 0x1.6a242cp-10f;

    p = DLC_FMA(p, x, 0x1.1239d2p-7f);
    p = DLC_FMA(p, x, 0x1.5558f2p-5f);
    p = DLC_FMA(p, x, 0x1.555492p-3f);
    p = DLC_FMA(p, x, 0x1.fffffcp-2f);
    return p;
}

/* On [-0.346574, 0.3465745]; error 2^-26.2. */
DLC_FN float
dlc_poly_expm1_f32(float x)
{
    float p = 0x1.6bec2ep-10f;

    p = DLC_FMA(p, x, 0x1.122766p-7f);
    p = DLC_FMA(p, x, 0x1.555674p-5f);
    p = DLC_FMA(p, x, 0x1.5554bp-3f);
    p = DLC_FMA(p, x, 0x1.fffffep-2f);
    return p;
}

/* On [-0.5, 0.5]; error 2^-28.9. */
DLC_FN float
dlc_poly_exp2_f32(float x)
{
    float p = 0x1.41fbdep-13f;

    p = DLC_FMA(p, x, 0x1.5f3e54p-10f);
    p = DLC_FMA(p, x, 0x1.3b2d4cp-7f);
    p = DLC_FMA(p, x, 0x1.c6aee8p-5f);
    p = DLC_FMA(p, x, 0x1.ebfbdcp-3f);
    p = DLC_FMA(p, x, 0x1.62e43p-1f);
    return p;
}

/* On [-0.292894, 0.4142145]; error 2^-27.9. */
DLC_FN float
dlc_poly_log_f32(float x)
{
    float p = -0x1.382e56p-4f;

    p = DLC_FMA(p, x, 0x1.0847ep-3f);
    p = DLC_FMA(p, x, -0x1.0f3788p-3f);
    p = DLC_FMA(p, x, 0x1.2271b8p-3f);
    p = DLC_FMA(p, x, -0x1.54276cp-3f);
    p = DLC_FMA(p, x, 0x1.99a3f2p-3f);
    p = DLC_FMA(p, x, -0x1.000426p-2f);
    p = DLC_FMA(p, x, 0x1.55555p-2f);
    p = DLC_FMA(p, x, -0x1.fffff8p-2f);
    return p;
}

/* On [0, 1]; error 2^-28.5. */
DLC_FN float
dlc_poly_atan_f32(float x)
{
    float p = -0x1.d62fbap-10f;

    p = DLC_FMA(p, x, 0x1.65a638p-7f);
    p = DLC_FMA(p, x, -0x1.fed138p-6f);
    p = DLC_FMA(p, x, 0x1.dac9ccp-5f);
    p = DLC_FMA(p, x, -0x1.583488p-4f);
    p = DLC_FMA(p, x, 0x1.c099fap-4f);
    p = DLC_FMA(p, x, -0x1.2421b4p-3f);
    p = DLC_FMA(p, x, 0x1.9991fep-3f);
    p = DLC_FMA(p, x, -0x1.55553ep-2f);
    return p;
}

/* On [0, 0.25]; error 2^-27.6. */
DLC_FN float
dlc_poly_asin_f32(float x)
{
    float p = 0x1.596d64p-5f;

    p = DLC_FMA(p, x, 0x1.8c27fp-6f);
    p = DLC_FMA(p, x, 0x1.747e52p-5f);
    p = DLC_FMA(p, x, 0x1.3301e4p-4f);
    p = DLC_FMA(p, x, 0x1.5555c8p-3f);
    return p;
}

/* On [0, 0.36]; error 2^-28.4. */
DLC_FN float
dlc_poly_tanh_f32(float x)
{
    float p = -0x1.82582ep-8f;

    p = DLC_FMA(p, x, 0x1.54b896p-6f);
    p = DLC_FMA(p, x, -0x1.b898dcp-5f);
    p = DLC_FMA(p, x, 0x1.1109aep-3f);
    p = DLC_FMA(p, x, -0x1.55553ep-2f);
    return p;
}

/* On [0, 0.87]; error 2^-25.7. */
DLC_FN float
dlc_poly_erf_f32(float x)
{
    float p = -0x1.377dap-11f;

    p = DLC_FMA(p, x, 0x1.4698b4p-8f);
    p = DLC_FMA(p, x, -0x1.b66fbp-6f);
    p = DLC_FMA(p, x, 0x1.ce1886p-4f);
    p = DLC_FMA(p, x, -0x1.8126dap-2f);
    p = DLC_FMA(p, x, 0x1.06eba6p-3f);
    return p;
}

/* On [0.92, 4]; error 2^-29.3. */
DLC_FN float
dlc_poly_erf_tail_f32(float x)
{
    float p = 0x1.9ae72cp-13f;

    p = DLC_FMA(p, x, -0x1.8ee054p-9f);
    p = DLC_FMA(p, x, 0x1.6c29ecp-6f);
    p = DLC_FMA(p, x, -0x1.a9b3e8p-4f);
    p = DLC_FMA(p, x, -0x1.463ccap-1f);
    p = DLC_FMA(p, x, -0x1.20af56p+0f);
    p = DLC_FMA(p, x, -0x1.9a717ep-13f);
    return p;
}

/* On [0, 5.6]; error 2^-27.0. */
DLC_FN float
dlc_poly_phi_f32(float x)
{
    float p = -0x1.7385c4p-19f;

    p = DLC_FMA(p, x, 0x1.43a1d8p-15f);
    p = DLC_FMA(p, x, -0x1.7e7c8ep-13f);
    p = DLC_FMA(p, x, -0x1.329af2p-13f);
    p = DLC_FMA(p, x, 0x1.cfb8bp-8f);
    p = DLC_FMA(p, x, -0x1.ae1f72p-5f);
    p = DLC_FMA(p, x, -0x1.d639ccp-2f);
    p = DLC_FMA(p, x, -0x1.26aedep+0f);
    p = DLC_FMA(p, x, -0x1p+0f);
    return p;
}

/* On [0, 0.65]; error 2^-27.7. */
DLC_FN float
dlc_poly_sin_f32(float x)
{
    float p = -0x1.98e5fap-13f;

    p = DLC_FMA(p, x, 0x1.110624p-7f);
    p = DLC_FMA(p, x, -0x1.555542p-3f);
    return p;
}

/* On [0, 0.65]; error 2^-33.5. */
DLC_FN float
dlc_poly_cos_f32(float x)
{
    float p = 0x1.98b504p-16f;

    p = DLC_FMA(p, x, -0x1.6c0648p-10f);
    p = DLC_FMA(p, x, 0x1.555538p-5f);
    p = DLC_FMA(p, x, -0x1p-1f);
    return p;
}

/* On [0, 0.65]; error 2^-28.9. */
DLC_FN float
dlc_poly_tan_f32(float x)
{
    float p = 0x1.32895cp-8f;

    p = DLC_FMA(p, x, -0x1.10c97ap-11f);
    p = DLC_FMA(p, x, 0x1.72cafap-7f);
    p = DLC_FMA(p, x, 0x1.59aaacp-6f);
    p = DLC_FMA(p, x, 0x1.bb2648p-5f);
    p = DLC_FMA(p, x, 0x1.110beep-3f);
    p = DLC_FMA(p, x, 0x1.555566p-2f);
    return p;
}

/* On [-0.5, 0.5]; error 2^-34.5. */
DLC_FN double
dlc_poly_exp2_mid(double x)
{
    double p = 0x1.fe1795d3cbfddp-17;

    p = DLC_FMA(p, x, 0x1.446a1e591fe86p-13);
    p = DLC_FMA(p, x, 0x1.5d8a70793eb84p-10);
    p = DLC_FMA(p, x, 0x1.3b29dc42fb6e3p-7);
    p = DLC_FMA(p, x, 0x1.c6b08aaf3c33dp-5);
    p = DLC_FMA(p, x, 0x1.ebfbe0a4bb979p-3);
    p = DLC_FMA(p, x, 0x1.62e42ff116229p-1);
    p = DLC_FMA(p, x, 0x1.ffffffffabbf1p-1);
    return p;
}

/* On [-0.346574, 0.3465745]; error 2^-64.0. */
DLC_FN double
dlc_poly_exp_f64(double x)
{
    double p = 0x1.1e3d2aea26dcap-29;

    p = DLC_FMA(p, x, 0x1.af6bda5ea9bfbp-26);
    p = DLC_FMA(p, x, 0x1.27e5b439eed63p-22);
    p = DLC_FMA(p, x, 0x1.71ddf02869f93p-19);
    p = DLC_FMA(p, x, 0x1.a01a01369d1edp-16);
    p = DLC_FMA(p, x, 0x1.a01a01b37b3d4p-13);
    p = DLC_FMA(p, x, 0x1.6c16c16c3043fp-10);
    p = DLC_FMA(p, x, 0x1.111111110ec65p-7);
    p = DLC_FMA(p, x, 0x1.5555555555503p-5);
    p = DLC_FMA(p, x, 0x1.555555555555bp-3);
    p = DLC_FMA(p, x, 0x1p-1);
    return p;
}

/* On [-0.346574, 0.3465745]; error 2^-68.2. */
DLC_FN double
dlc_poly_expm1_f64(double x)
{
    double p = 0x1.61281fbd8acb6p-33;

    p = DLC_FMA(p, x, 0x1.1f8aad07e2bafp-29);
    p = DLC_FMA(p, x, 0x1.ae6499575d5dap-26);
    p = DLC_FMA(p, x, 0x1.27e4cc815c45ap-22);
    p = DLC_FMA(p, x, 0x1.71de3a3d755bcp-19);
    p = DLC_FMA(p, x, 0x1.a01a01ad8c3dap-16);
    p = DLC_FMA(p, x, 0x1.a01a01a020933p-13);
    p = DLC_FMA(p, x, 0x1.6c16c16c14e41p-10);
    p = DLC_FMA(p, x, 0x1.1111111111105p-7);
    p = DLC_FMA(p, x, 0x1.5555555555559p-5);
    p = DLC_FMA(p, x, 0x1.5555555555555p-3);
    p = DLC_FMA(p, x, 0x1p-1);
    return p;
}

/* On [0, 0.0294372]; error 2^-66.7. */
DLC_FN double
dlc_poly_log_f64(double x)
{
    double p = 0x1.0f5ff0a6560cp-3;

    p = DLC_FMA(p, x, 0x1.0f5d24cf9c5dp-3);
    p = DLC_FMA(p, x, 0x1.3b20a74dc3ba1p-3);
    p = DLC_FMA(p, x, 0x1.745cde4fcc4fcp-3);
    p = DLC_FMA(p, x, 0x1.c71c7258a549ep-3);
    p = DLC_FMA(p, x, 0x1.249249242b90fp-2);
    p = DLC_FMA(p, x, 0x1.9999999999dfbp-2);
    p = DLC_FMA(p, x, 0x1.5555555555555p-1);
    return p;
}

/* On [0, 0.0294372]; error 2^-80.8. */
DLC_FN double
dlc_poly_log_dd(double x)
{
    double p = 0x1.c316ef09fb21fp-4;

    p = DLC_FMA(p, x, 0x1.aaeca2d442e5bp-4);
    p = DLC_FMA(p, x, 0x1.e20b7494e99cap-4);
    p = DLC_FMA(p, x, 0x1.111094856fc42p-3);
    p = DLC_FMA(p, x, 0x1.3b13b310a2bb5p-3);
    p = DLC_FMA(p, x, 0x1.745d1741823edp-3);
    p = DLC_FMA(p, x, 0x1.c71c71c722718p-3);
    p = DLC_FMA(p, x, 0x1.249249249246fp-2);
    p = DLC_FMA(p, x, 0x1.999999999999ap-2);
    return p;
}

/* On [0, 0.0294372]; error 2^-37.8. */
DLC_FN double
dlc_poly_log_mid(double x)
{
    double p = 0x1.e3af8a7e25d52p-3;

    p = DLC_FMA(p, x, 0x1.2432c0d79248ap-2);
    p = DLC_FMA(p, x, 0x1.999a9c8df4bd1p-2);
    p = DLC_FMA(p, x, 0x1.555554dad1c7ap-1);
    p = DLC_FMA(p, x, 0x1.0000000004a1bp+1);
    return p;
}

/* On [0, 0.6168502]; error 2^-68.7. */
DLC_FN double
dlc_poly_sin_f64(double x)
{
    double p = -0x1.aaa2483e728f9p-41;

    p = DLC_FMA(p, x, 0x1.61208c4a305cbp-33);
    p = DLC_FMA(p, x, -0x1.ae64528d8233fp-26);
    p = DLC_FMA(p, x, 0x1.71de3a53308e9p-19);
    p = DLC_FMA(p, x, -0x1.a01a01a018a6dp-13);
    p = DLC_FMA(p, x, 0x1.111111111110bp-7);
    p = DLC_FMA(p, x, -0x1.5555555555555p-3);
    return p;
}

/* On [0, 0.6168502]; error 2^-75.0. */
DLC_FN double
dlc_poly_cos_f64(double x)
{
    double p = 0x1.aabd18f14cb56p-45;

    p = DLC_FMA(p, x, -0x1.9393242017e53p-37);
    p = DLC_FMA(p, x, 0x1.1eed8c90ccdc6p-29);
    p = DLC_FMA(p, x, -0x1.27e4fb75eb8e9p-22);
    p = DLC_FMA(p, x, 0x1.a01a01a018ccbp-16);
    p = DLC_FMA(p, x, -0x1.6c16c16c16c0fp-10);
    p = DLC_FMA(p, x, 0x1.5555555555555p-5);
    return p;
}

/* On [0, 1]; error 2^-33.9. */
DLC_FN double
dlc_poly_atan_mid(double x)
{
    double p = -0x1.6ded894d441a7p-11;

    p = DLC_FMA(p, x, 0x1.42da05517074dp-8);
    p = DLC_FMA(p, x, -0x1.0b0c80ea0d945p-6);
    p = DLC_FMA(p, x, 0x1.1a6ce4ee7e974p-5);
    p = DLC_FMA(p, x, -0x1.be9808a8f91abp-5);
    p = DLC_FMA(p, x, 0x1.2958a85454ff1p-4);
    p = DLC_FMA(p, x, -0x1.700b21f1e6ee5p-4);
    p = DLC_FMA(p, x, 0x1.c66e4c0cfe23ap-4);
    p = DLC_FMA(p, x, -0x1.248a2ca072bfap-3);
    p = DLC_FMA(p, x, 0x1.999937f12de7ep-3);
    p = DLC_FMA(p, x, -0x1.555554873b9b1p-2);
    return p;
}

/* On [0, 0.25]; error 2^-62.1. */
DLC_FN double
dlc_poly_atan_f64(double x)
{
    double p = -0x1.11b24bbcac072p-7;

    p = DLC_FMA(p, x, 0x1.833441acf19a1p-6);
    p = DLC_FMA(p, x, -0x1.2ff19e2a92fbbp-5);
    p = DLC_FMA(p, x, 0x1.77e9183dc8e22p-5);
    p = DLC_FMA(p, x, -0x1.ac6d490fee011p-5);
    p = DLC_FMA(p, x, 0x1.e181cd31cf0c2p-5);
    p = DLC_FMA(p, x, -0x1.110c5f670c7c4p-4);
    p = DLC_FMA(p, x, 0x1.3b135f0ed5ac5p-4);
    p = DLC_FMA(p, x, -0x1.745d13753abfap-4);
    p = DLC_FMA(p, x, 0x1.c71c71a9dfb86p-4);
    p = DLC_FMA(p, x, -0x1.249249245006cp-3);
    p = DLC_FMA(p, x, 0x1.9999999999021p-3);
    p = DLC_FMA(p, x, -0x1.5555555555552p-2);
    return p;
}

/* On [0, 0.25]; error 2^-63.8. */
DLC_FN double
dlc_poly_asin_f64(double x)
{
    double p = 0x1.139971ad7ba01p-5;

    p = DLC_FMA(p, x, -0x1.ac66a04144209p-6);
    p = DLC_FMA(p, x, 0x1.96bc37f314a49p-6);
    p = DLC_FMA(p, x, 0x1.65d9b808053fp-11);
    p = DLC_FMA(p, x, 0x1.47ffbecf1bd65p-7);
    p = DLC_FMA(p, x, 0x1.36c4d7b35168p-7);
    p = DLC_FMA(p, x, 0x1.7ba3f621c8fcap-7);
    p = DLC_FMA(p, x, 0x1.c980e66555783p-7);
    p = DLC_FMA(p, x, 0x1.1c4f854febbd9p-6);
    p = DLC_FMA(p, x, 0x1.6e8b9af335c85p-6);
    p = DLC_FMA(p, x, 0x1.f1c71ca833323p-6);
    p = DLC_FMA(p, x, 0x1.6db6db6d48bbdp-5);
    p = DLC_FMA(p, x, 0x1.3333333333a3bp-4);
    p = DLC_FMA(p, x, 0x1.5555555555553p-3);
    return p;
}

/* On [0, 1]; error 2^-68.7. */
DLC_FN double
dlc_poly_erf_f64(double x)
{
    double p = -0x1.2928e58e4d7dap-38;

    p = DLC_FMA(p, x, 0x1.7ecbf2048ef07p-34);
    p = DLC_FMA(p, x, -0x1.4e55cba14a706p-30);
    p = DLC_FMA(p, x, 0x1.fc4116e0dda72p-27);
    p = DLC_FMA(p, x, -0x1.5f6d6b4dcb1d4p-23);
    p = DLC_FMA(p, x, 0x1.b9e64d076c86ep-20);
    p = DLC_FMA(p, x, -0x1.f4d255e140addp-17);
    p = DLC_FMA(p, x, 0x1.f9a326bfb6d1cp-14);
    p = DLC_FMA(p, x, -0x1.c02db3fed8f45p-11);
    p = DLC_FMA(p, x, 0x1.565bcd0e64ab6p-8);
    p = DLC_FMA(p, x, -0x1.b82ce3128899bp-6);
    p = DLC_FMA(p, x, 0x1.ce2f21a042bddp-4);
    p = DLC_FMA(p, x, -0x1.812746b0379e7p-2);
    p = DLC_FMA(p, x, 0x1.06eba8214db69p-3);
    return p;
}

/* On [-2.5, 2.45]; error 2^-58.7. */
DLC_FN double
dlc_poly_erf_large_f64(double x)
{
    double p = -0x1.e80b2dcdc8fffp-43;

    p = DLC_FMA(p, x, -0x1.fc25b24e9b9c6p-39);
    p = DLC_FMA(p, x, -0x1.e0d00001489eap-36);
    p = DLC_FMA(p, x, -0x1.fa3938b1876ccp-34);
    p = DLC_FMA(p, x, -0x1.2b2eee504fb4p-32);
    p = DLC_FMA(p, x, -0x1.c332f541e5a01p-33);
    p = DLC_FMA(p, x, 0x1.7122cb2750086p-31);
    p = DLC_FMA(p, x, 0x1.6897c8559529ap-29);
    p = DLC_FMA(p, x, 0x1.359f3f7b6851fp-29);
    p = DLC_FMA(p, x, 0x1.e3ac6018023c4p-29);
    p = DLC_FMA(p, x, -0x1.98c9a41e990adp-26);
    p = DLC_FMA(p, x, 0x1.54b9331b8a106p-24);
    p = DLC_FMA(p, x, -0x1.b1437fb04b667p-22);
    p = DLC_FMA(p, x, 0x1.ee2e9a54b1aafp-20);
    p = DLC_FMA(p, x, -0x1.1448afc650345p-17);
    p = DLC_FMA(p, x, 0x1.2f85fed019d8p-15);
    p = DLC_FMA(p, x, -0x1.460b159ac51d5p-13);
    p = DLC_FMA(p, x, 0x1.563201a36dcafp-11);
    p = DLC_FMA(p, x, -0x1.5e5d7f686c96p-9);
    p = DLC_FMA(p, x, 0x1.5d58113baf456p-7);
    p = DLC_FMA(p, x, -0x1.5285d2ea4d87p-5);
    p = DLC_FMA(p, x, 0x1.3e0a99a0f12c9p-3);
    return p;
}

/* On [-1, 0.76]; error 2^-59.4. */
DLC_TABLE double dlc_erfcx_f64_first[1][2] = {
    {0x1.3ba5916e9fd7fp+0, -0x1.9ee7f3fc1739ep-55},
};

DLC_FN double
dlc_poly_erfcx_f64(double x)
{
    double p = 0x1.4f278952b184dp-30;

    p = DLC_FMA(p, x, 0x1.e0e9d33eeb276p-30);
    p = DLC_FMA(p, x, -0x1.e28a7636f6384p-27);
    p = DLC_FMA(p, x, -0x1.2ef0ac80bed5p-26);
    p = DLC_FMA(p, x, 0x1.d92a27edd96f6p-24);
    p = DLC_FMA(p, x, 0x1.3edcaea9af675p-24);
    p = DLC_FMA(p, x, -0x1.bb506bd7da41dp-21);
    p = DLC_FMA(p, x, 0x1.3bd0877c1e575p-22);
    p = DLC_FMA(p, x, 0x1.7f31acf3af7f6p-18);
    p = DLC_FMA(p, x, -0x1.788df2e0b8eadp-17);
    p = DLC_FMA(p, x, -0x1.995a85e0c83eap-16);
    p = DLC_FMA(p, x, 0x1.3be06e164c57dp-13);
    p = DLC_FMA(p, x, -0x1.a1df1861245d4p-13);
    p = DLC_FMA(p, x, -0x1.8d4a9c79b87e5p-11);
    p = DLC_FMA(p, x, 0x1.49c67271dcefcp-8);
    p = DLC_FMA(p, x, -0x1.096238825dbfep-6);
    p = DLC_FMA(p, x, 0x1.3079edf6cc73dp-5);
    p = DLC_FMA(p, x, -0x1.0fb06dfe56a63p-4);
    p = DLC_FMA(p, x, 0x1.7fee004e10145p-4);
    p = DLC_FMA(p, x, -0x1.9ddb23c3e8848p-4);
    p = DLC_FMA(p, x, 0x1.16ecefcfa5492p-4);
    p = DLC_FMA(p, x, 0x1.f7f5df66fd6a7p-7);
    p = DLC_FMA(p, x, -0x1.1df1ad154a28fp-3);
    return p;
}

/* On [-1, 0.45]; error 2^-30.3. */
DLC_FN double
dlc_poly_erfcx_mid(double x)
{
    double p = -0x1.4b575ce0bf78ep-11;

    p = DLC_FMA(p, x, -0x1.210f9898b0441p-10);
    p = DLC_FMA(p, x, 0x1.4d1050b3eb1b4p-8);
    p = DLC_FMA(p, x, -0x1.065f27867ebfp-6);
    p = DLC_FMA(p, x, 0x1.30d5bedae4fe7p-5);
    p = DLC_FMA(p, x, -0x1.0fd0ce8fdf3a3p-4);
    p = DLC_FMA(p, x, 0x1.7fe25630221b6p-4);
    p = DLC_FMA(p, x, -0x1.9dd8f1eb9d895p-4);
    p = DLC_FMA(p, x, 0x1.16edce0619924p-4);
    p = DLC_FMA(p, x, 0x1.f7f56912eb76dp-7);
    p = DLC_FMA(p, x, -0x1.1df1af2fe5192p-3);
    p = DLC_FMA(p, x, 0x1.3ba5916ff84afp+0);
    return p;
}

/* On [-0.5, 0.5]; error 2^-68.6. */
DLC_TABLE double dlc_lgamma_f64_first[6][2] = {
    {0x1.b0ee6072093cep-2, 0x1.6caa9f086918dp-58},
    {0x1.4a34cc4a60fa6p-2, 0x1.18e7c8f6c72c7p-56},
    {-0x1.13e001a557606p-4, -0x1.cd7dedbbb0b7fp-58},
    {0x1.51322ac7d8481p-6, 0x1.13af8159c4182p-60},
    {-0x1.e404fc218f67cp-8, -0x1.c23638afb602cp-62},
    {0x1.7add6eadb724p-9, 0x1.107f99361cfb2p-67},
};

DLC_FN double
dlc_poly_lgamma_f64(double x)
{
    double p = 0x1.16d8c338468eep-26;

    p = DLC_FMA(p, x, -0x1.0cbe3416a09dbp-25);
    p = DLC_FMA(p, x, 0x1.751dd599cd472p-25);
    p = DLC_FMA(p, x, -0x1.983c55f1b591cp-24);
    p = DLC_FMA(p, x, 0x1.cb5b691c81b19p-23);
    p = DLC_FMA(p, x, -0x1.e45d33da4c12cp-22);
    p = DLC_FMA(p, x, 0x1.00437fbe4a4cap-20);
    p = DLC_FMA(p, x, -0x1.11a57cbc641bep-19);
    p = DLC_FMA(p, x, 0x1.25990ebc2c425p-18);
    p = DLC_FMA(p, x, -0x1.3cbd0a078e2ep-17);
    p = DLC_FMA(p, x, 0x1.580dc4d6166a2p-16);
    p = DLC_FMA(p, x, -0x1.78de59597348cp-15);
    p = DLC_FMA(p, x, 0x1.a127b11f26829p-14);
    p = DLC_FMA(p, x, -0x1.d3fd4c7f5dec3p-13);
    p = DLC_FMA(p, x, 0x1.0b36af85fa487p-11);
    p = DLC_FMA(p, x, -0x1.38ac5c2bf05cdp-10);
    return p;
}

/* On [0, 0.25]; error 2^-63.7. */
DLC_FN double
dlc_poly_sinc_log_f64(double x)
{
    double p = -0x1.11264b3c01ddep-1;

    p = DLC_FMA(p, x, 0x1.013723b77b014p-1);
    p = DLC_FMA(p, x, -0x1.c1cc8b4f3e2ecp-2);
    p = DLC_FMA(p, x, 0x1.f1a1fcc3b4c56p-5);
    p = DLC_FMA(p, x, -0x1.0a6ba2f2771cp-3);
    p = DLC_FMA(p, x, -0x1.7a8c599cad976p-4);
    p = DLC_FMA(p, x, -0x1.cb7788c1a1e44p-4);
    p = DLC_FMA(p, x, -0x1.ff90461db17b1p-4);
    p = DLC_FMA(p, x, -0x1.249b1070f816bp-3);
    p = DLC_FMA(p, x, -0x1.556a9e24f283dp-3);
    p = DLC_FMA(p, x, -0x1.9a01e587d8833p-3);
    p = DLC_FMA(p, x, -0x1.010b36a98adadp-2);
    p = DLC_FMA(p, x, -0x1.5b40cb1021621p-2);
    p = DLC_FMA(p, x, -0x1.151322ac7d718p-1);
    p = DLC_FMA(p, x, -0x1.a51a6625307d4p+0);
    return p;
}

/* On [0, 0.0330578]; error 2^-66.8. */
DLC_FN double
dlc_poly_stirling_f64(double x)
{
    double p = -0x1.96a809d262a56p-2;

    p = DLC_FMA(p, x, 0x1.0830f574298efp-3);
    p = DLC_FMA(p, x, -0x1.c8c0b4aa2efdp-6);
    p = DLC_FMA(p, x, 0x1.a1c3c7148ab93p-8);
    p = DLC_FMA(p, x, -0x1.f68a6b5c3cdbdp-10);
    p = DLC_FMA(p, x, 0x1.b9515597d59c1p-11);
    p = DLC_FMA(p, x, -0x1.381380871b57dp-11);
    p = DLC_FMA(p, x, 0x1.a01a019fa8a36p-11);
    p = DLC_FMA(p, x, -0x1.6c16c16c16ba6p-9);
    p = DLC_FMA(p, x, 0x1.5555555555555p-4);
    return p;
}

/* On [-3.125, 3.125]; error 2^-30.8. */
DLC_FN double
dlc_poly_erfinv_mid(double x)
{
    double p = -0x1.cca60df4044bfp-37;

    p = DLC_FMA(p, x, 0x1.74f5b9b952c24p-38);
    p = DLC_FMA(p, x, 0x1.21165931c97bp-30);
    p = DLC_FMA(p, x, -0x1.45e3a6c95e5ecp-28);
    p = DLC_FMA(p, x, -0x1.f467cd7f83042p-26);
    p = DLC_FMA(p, x, 0x1.ca5cbecbcf4dp-22);
    p = DLC_FMA(p, x, -0x1.6e67ca051bad5p-20);
    p = DLC_FMA(p, x, -0x1.d220d605717e6p-17);
    p = DLC_FMA(p, x, 0x1.879b5a71cbc3ep-13);
    p = DLC_FMA(p, x, -0x1.8455f849d3796p-11);
    p = DLC_FMA(p, x, -0x1.8b6c2cab2d75p-8);
    p = DLC_FMA(p, x, 0x1.ebd80d1f35502p-3);
    p = DLC_FMA(p, x, 0x1.a755e7c8a356ap+0);
    return p;
}

/* On [-0.75, 0.8]; error 2^-28.9. */
DLC_FN double
dlc_poly_erfinv_far(double x)
{
    double p = 0x1.438628cf1be9bp-14;

    p = DLC_FMA(p, x, -0x1.5414cdfedf757p-15);
    p = DLC_FMA(p, x, -0x1.7628049380e3ap-12);
    p = DLC_FMA(p, x, 0x1.026fca2806a77p-10);
    p = DLC_FMA(p, x, -0x1.ba929805a3bf7p-10);
    p = DLC_FMA(p, x, 0x1.45a9fd4331032p-9);
    p = DLC_FMA(p, x, -0x1.ebada83a06455p-9);
    p = DLC_FMA(p, x, 0x1.600572f248beap-8);
    p = DLC_FMA(p, x, 0x1.0158a6df9b996p+0);
    p = DLC_FMA(p, x, 0x1.8abcc374067f2p+1);
    return p;
}

/* On [-3.125, 3.125]; error 2^-58.1. */
DLC_FN double
dlc_poly_erfinv_f64(double x)
{
    double p = -0x1.66fb776ff1913p-72;

    p = DLC_FMA(p, x, 0x1.3948f15686958p-68);
    p = DLC_FMA(p, x, 0x1.00ad790bdcfadp-68);
    p = DLC_FMA(p, x, -0x1.a8384e5c39c16p-62);
    p = DLC_FMA(p, x, 0x1.0d0f4040f4777p-59);
    p = DLC_FMA(p, x, 0x1.6b4565c73eaa1p-57);
    p = DLC_FMA(p, x, -0x1.63c27a8b6e8dap-53);
    p = DLC_FMA(p, x, 0x1.fdea36a1843ebp-52);
    p = DLC_FMA(p, x, 0x1.733a7ac822bcp-48);
    p = DLC_FMA(p, x, -0x1.f97179f05be1p-45);
    p = DLC_FMA(p, x, 0x1.a9e1233807084p-44);
    p = DLC_FMA(p, x, 0x1.489ee88f9e212p-39);
    p = DLC_FMA(p, x, -0x1.64affe339f1ep-36);
    p = DLC_FMA(p, x, 0x1.444fa2ba3289fp-37);
    p = DLC_FMA(p, x, 0x1.190a43cf3e762p-30);
    p = DLC_FMA(p, x, -0x1.f62eb5e673931p-28);
    p = DLC_FMA(p, x, -0x1.ac61bc5dbfd31p-28);
    p = DLC_FMA(p, x, 0x1.db9fbe3e718f4p-22);
    p = DLC_FMA(p, x, -0x1.710f90377e93fp-19);
    p = DLC_FMA(p, x, -0x1.62fb9e3d8e0c1p-18);
    p = DLC_FMA(p, x, 0x1.aa46bc94b854ep-13);
    p = DLC_FMA(p, x, -0x1.68af564e32b69p-10);
    p = DLC_FMA(p, x, -0x1.c68cde90dc3cep-10);
    p = DLC_FMA(p, x, 0x1.f6f0fe0a1d402p-3);
    return p;
}

/* On [-0.75, 0.75]; error 2^-59.8. */
DLC_FN double
dlc_poly_erfinv_tail_f64(double x)
{
    double p = 0x1.06b8ab7883b5bp-27;

    p = DLC_FMA(p, x, -0x1.0691ce82e2a71p-26);
    p = DLC_FMA(p, x, -0x1.65b09920f02ap-26);
    p = DLC_FMA(p, x, 0x1.1a7482f1d82bep-23);
    p = DLC_FMA(p, x, -0x1.07b87d2656875p-22);
    p = DLC_FMA(p, x, -0x1.d9563436d3421p-26);
    p = DLC_FMA(p, x, 0x1.8dbb922853566p-20);
    p = DLC_FMA(p, x, -0x1.0b7a98706e0ebp-18);
    p = DLC_FMA(p, x, 0x1.8999a90ce57b1p-19);
    p = DLC_FMA(p, x, 0x1.a241e7142a031p-17);
    p = DLC_FMA(p, x, -0x1.8cf45f9299323p-15);
    p = DLC_FMA(p, x, 0x1.1e6abb03feaffp-14);
    p = DLC_FMA(p, x, 0x1.932e8ebbe08abp-16);
    p = DLC_FMA(p, x, -0x1.7448bcc198193p-12);
    p = DLC_FMA(p, x, 0x1.f3cc545e58359p-11);
    p = DLC_FMA(p, x, -0x1.ba9240d89754p-10);
    p = DLC_FMA(p, x, 0x1.468eeca942ca1p-9);
    p = DLC_FMA(p, x, -0x1.ebadabba0238fp-9);
    p = DLC_FMA(p, x, 0x1.5ffcfe5b6cd7ap-8);
    p = DLC_FMA(p, x, 0x1.58a6d641d54a8p-8);
    p = DLC_FMA(p, x, -0x1.5433c7f2a5b83p-3);
    return p;
}

/* On [-1, 1.1]; error 2^-59.9. */
DLC_FN double
dlc_poly_erfinv_end_f64(double x)
{
    double p = 0x1.664b917b8ddc1p-38;

    p = DLC_FMA(p, x, -0x1.68d0d9d4ee645p-36);
    p = DLC_FMA(p, x, 0x1.45cc7328d6ffep-36);
    p = DLC_FMA(p, x, 0x1.344ff317bcf4dp-34);
    p = DLC_FMA(p, x, -0x1.ab12190ed4fdep-32);
    p = DLC_FMA(p, x, 0x1.6977679a6a21cp-30);
    p = DLC_FMA(p, x, -0x1.e492c2912f0ecp-29);
    p = DLC_FMA(p, x, 0x1.0cc69a86e758ep-27);
    p = DLC_FMA(p, x, -0x1.05768572a19b3p-26);
    p = DLC_FMA(p, x, 0x1.f286efbec72a6p-26);
    p = DLC_FMA(p, x, -0x1.2236a3681d6e8p-24);
    p = DLC_FMA(p, x, 0x1.ebe338848f266p-23);
    p = DLC_FMA(p, x, -0x1.0a903a023c08bp-20);
    p = DLC_FMA(p, x, 0x1.2fbcfd5d07ef2p-18);
    p = DLC_FMA(p, x, -0x1.4a3490378785ap-16);
    p = DLC_FMA(p, x, 0x1.3ebf4efb59f78p-14);
    p = DLC_FMA(p, x, -0x1.c2f36aa171b25p-13);
    p = DLC_FMA(p, x, -0x1.22ea5df1cd0ebp-13);
    p = DLC_FMA(p, x, 0x1.51868fdd085b2p-7);
    p = DLC_FMA(p, x, -0x1.336445ca500a3p-3);
    return p;
}
