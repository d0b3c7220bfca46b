package apiserver

import (
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
)

const (
	// APILevel is the Kubernetes minor version whose API is served.
	APILevel = "1.37"
	// GitVersion is what /version says when the build did not set component-base's variables.
	GitVersion = "v1.37.2"
)

// effective is the version that API lifetimes are counted by and that /version shows.
type effective struct {
	compatibility.MutableEffectiveVersion
}

func newEffective() effective {
	return effective{compatibility.NewEffectiveVersionFromString(APILevel, "", "")}
}

// Info is the answer of /version.
func (e effective) Info() *apiversion.Info {
	info := *e.MutableEffectiveVersion.Info()
	if built := version.Get().GitVersion; built == "" || strings.HasPrefix(built, "v0.0.0") {
		info.GitVersion, info.GitTreeState = GitVersion, "clean"
	}
	info.Major, info.Minor, _ = strings.Cut(APILevel, ".")
	return &info
}
