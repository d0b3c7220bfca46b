package batch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{jobs(), cronJobs()} }

func spec() *field.Path   { return field.NewPath("spec") }
func status() *field.Path { return field.NewPath("status") }

// templateColumns are the wide columns over a Pod template and its selector.
func templateColumns(selector string) []metav1.TableColumnDefinition {
	return printers.WideColumns(
		printers.StringColumn("Containers", "Names of each container in the template."),
		printers.StringColumn("Images", "Images referenced by each container in the template."),
		printers.StringColumn("Selector", selector),
	)
}
