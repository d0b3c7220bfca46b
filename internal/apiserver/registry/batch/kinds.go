package batch

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{jobs(), cronJobs()} }

func spec() *field.Path   { return field.NewPath("spec") }
func status() *field.Path { return field.NewPath("status") }
