package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// OutOfTree are plugins that are compiled in and off until a profile enables them; their arguments
// may be absent (nil).
var OutOfTree = []Registration{
	{Name: coscheduling.Name, Args: &coschedulingArgs},
	{Name: gangscheduling.Name, New: newGangScheduling}, // on with the gate GenericWorkload
}

var coschedulingArgs = argsOf(func() *coscheduling.Args { return &coscheduling.Args{} }, (*coscheduling.Args).Complete,
	func(p *field.Path, a *coscheduling.Args) field.ErrorList { return a.Check(p) })

// Registry are the rows of all plugins compiled in.
func Registry() []Registration { return append(append([]Registration{}, InTree...), OutOfTree...) }

func newGangScheduling(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
	return gangscheduling.New(h.PodGroupManager()), nil
}
