// SPDX-License-Identifier: Apache-2.0
// An Android library (.aar) with the classifier; -Pdigits=FOLDER is what `arm-ext compile --emit c-library` wrote.
plugins {
    id("com.android.library") version "8.7.3"
}

android {
    namespace = "org.armext.digits"
    compileSdk = 35
    defaultConfig {
        minSdk = 24
        ndk { abiFilters += "arm64-v8a" }
        externalNativeBuild {
            cmake { arguments += "-DDIGITS_FOLDER=${file(property("digits")!!).absolutePath}" }
        }
    }
    externalNativeBuild {
        cmake { path = file("src/main/cpp/CMakeLists.txt") }
    }
}
