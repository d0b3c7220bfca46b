package apiserver

import (
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
)

const (
	// APILevel is the Kubernetes minor version whose API is served.
	APILevel = "1.37"
	// GitVersion is the version at /version if the build did not set component-base's variables.
	GitVersion = "v1.37.2"
)

// effectiveVersion is the version that determines which APIs are served and that /version returns.
type effectiveVersion struct {
	compatibility.MutableEffectiveVersion
	emulated *apiversion.Info
}

// newEffectiveVersion returns v1.37, or v1.36 if that is emulated.
func newEffectiveVersion(emulates136 bool) effectiveVersion {
	e := effectiveVersion{MutableEffectiveVersion: compatibility.NewEffectiveVersionFromString(APILevel, "", "")}
	if emulates136 {
		v := compatibility.NewEffectiveVersionFromString(APILevel, "1.36", "1.35")
		v.SetEmulationVersion(utilversion.MustParse("1.36"))
		e.emulated = v.Info()
	}
	return e
}

// Info returns the response of /version.
func (e effectiveVersion) Info() *apiversion.Info {
	info := *e.MutableEffectiveVersion.Info()
	if e.emulated != nil {
		info = *e.emulated
	}
	if built := version.Get().GitVersion; built == "" || strings.HasPrefix(built, "v0.0.0") {
		info.GitVersion, info.GitTreeState = GitVersion, "clean"
	}
	info.Major, info.Minor, _ = strings.Cut(APILevel, ".")
	return &info
}
