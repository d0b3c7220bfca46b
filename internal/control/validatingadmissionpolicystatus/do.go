package validatingadmissionpolicystatus

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyadmissionv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery/cached/memory"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/restmapper"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// fieldManager is upstream's name for the writer of the status.
const fieldManager = "validatingadmissionpolicy-status"

// typeChecker is what says which expressions do not fit; the API server's library has it.
type typeChecker interface {
	Check(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
}

type controller struct {
	controllerContext controllerruntime.ControllerContext
	policies          admissionlisters.ValidatingAdmissionPolicyLister
	types             typeChecker
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	return newQueue(d, &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: d.Client.Discovery()},
		RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.Client.Discovery())),
	})
}

func newQueue(d controllerruntime.ControllerContext, types typeChecker) *controllerruntime.Queue {
	policies := d.Informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c := &controller{d, policies.Lister(), types}
	q := controllerruntime.NewQueue(fieldManager, 1, c.sync)
	q.WatchByKey(policies.Informer())
	return q
}

func (c *controller) sync(ctx context.Context, name string) (time.Duration, error) {
	p, err := c.policies.Get(name)
	if err != nil || !IsDue(p) {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	_, err = c.controllerContext.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx,
		statusOf(p, c.types.Check(p)), metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return 0, controllerruntime.IgnoreNotFound(err)
}

// statusOf returns what to apply to a policy's status; it replaces the warnings of the generation
// before.
func statusOf(p *admissionv1.ValidatingAdmissionPolicy,
	warnings []admissionv1.ExpressionWarning) *applyadmissionv1.ValidatingAdmissionPolicyApplyConfiguration {
	checked := applyadmissionv1.TypeChecking()
	for _, w := range warnings {
		checked.WithExpressionWarnings(
			applyadmissionv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	return applyadmissionv1.ValidatingAdmissionPolicy(p.Name).WithStatus(
		applyadmissionv1.ValidatingAdmissionPolicyStatus().WithObservedGeneration(p.Generation).
			WithTypeChecking(checked))
}
