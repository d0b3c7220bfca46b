package plugins

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// Extra are plugins that are compiled in and off until a profile enables them; their arguments may be absent (nil).
var Extra = []Row{
	{Name: coscheduling.Name, Args: &coschedulingArgs},
}

var coschedulingArgs = row(func() *coscheduling.Args { return &coscheduling.Args{} }, (*coscheduling.Args).Complete,
	func(p *field.Path, a *coscheduling.Args) field.ErrorList { return a.Check(p) })

// Known are the rows of all plugins compiled in.
func Known() []Row { return append(append([]Row{}, All...), Extra...) }
