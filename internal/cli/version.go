package cli

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/version"
	componentversion "k8s.io/component-base/version"
)

// KubeVersion is the API level.
var KubeVersion = version.MustParseGeneric("1.37.2")

// BuildRevision is the commit this binary was made from, as the build wrote it.
func BuildRevision() string {
	if c := componentversion.Get().GitCommit; c != "" && c[0] != '$' {
		return c
	}
	return "unreleased"
}

// identity names this process among those that compete for a lease.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%s", host, rand.String(8))
}
