package pods

import (
	"context"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/util/retry"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// evictionREST is pods/eviction: a delete that a PodDisruptionBudget may refuse.
type evictionREST struct {
	noDestroy
	pods    *podStore
	status  rest.Storage
	lookup  func(group, resource string) rest.StandardStorage
	journal journal.Sink
}

var (
	_ rest.NamedCreater             = &evictionREST{}
	_ rest.GroupVersionKindProvider = &evictionREST{}
	_ rest.GroupVersionAcceptor     = &evictionREST{}
)

func (r *evictionREST) New() runtime.Object { return &policyv1.Eviction{} }

// GroupVersionKind says that the body is of the policy group, though the endpoint lies in core.
func (r *evictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

// AcceptsGroupVersion takes bodies of policy/v1 and of the older policy/v1beta1, which are alike.
func (r *evictionREST) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv.Group == policyv1.GroupName && (gv.Version == "v1" || gv.Version == "v1beta1")
}

// Create evicts the named Pod.
func (r *evictionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	e, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != e.Name {
		return nil, errors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	requestedOptions, err := deleteOptions(e, options)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, e.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	p, deleted, err := r.deleteIgnoringPDB(ctx, name, requestedOptions)
	if err != nil {
		return nil, err
	}
	if !deleted {
		if refused, err := r.deleteCheckingPDB(ctx, p, requestedOptions); err != nil || refused != nil {
			return refused, err
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// deleteOptions are the eviction's, with the request's dry run.
func deleteOptions(e *policyv1.Eviction, options *metav1.CreateOptions) (*metav1.DeleteOptions, error) {
	if e.DeleteOptions == nil {
		return &metav1.DeleteOptions{DryRun: options.DryRun}, nil
	}
	o := e.DeleteOptions.DeepCopy()
	switch {
	case len(o.DryRun) == 0:
		o.DryRun = options.DryRun
	case len(options.DryRun) != 0 && len(o.DryRun) != len(options.DryRun):
		return nil, errors.NewBadRequest("Non-equal dry-run options: CreateOptions and DeleteOptions")
	}
	return o, nil
}

// deleteIgnoringPDB deletes a Pod that no budget protects any more, and says so; otherwise it
// returns the Pod as it is.
func (r *evictionREST) deleteIgnoringPDB(ctx context.Context, name string,
	requestedOptions *metav1.DeleteOptions) (p *v1.Pod, deleted bool, err error) {
	again := errors.IsConflict
	if hasVersion(requestedOptions) {
		again = func(error) bool { return false }
	}
	err = retry.OnError(evictionsRetry(), again, func() error {
		if p, err = r.pods.pod(ctx, name); err != nil || !canIgnorePDB(p) {
			return err
		}
		o := requestedOptions.DeepCopy()
		if !pod.IsTerminal(p) && !hasVersion(requestedOptions) {
			requireVersion(o, p.ResourceVersion)
		}
		err := r.addConditionAndDeletePod(ctx, name, o)
		deleted = err == nil
		return err
	})
	return p, deleted, err
}

// deleteCheckingPDB asks the budget, if there is one, and deletes. A status is the answer to give
// in place of success.
func (r *evictionREST) deleteCheckingPDB(ctx context.Context, p *v1.Pod,
	requestedOptions *metav1.DeleteOptions) (runtime.Object, error) {
	budgets, err := r.budgets(ctx, p)
	if err != nil {
		return nil, err
	}
	o, pin, budget := requestedOptions.DeepCopy(), false, ""
	switch len(budgets) {
	case 0:
	case 1:
		budget = budgets[0].Name
		if pin = canEvictUnready(p, &budgets[0]); pin {
			requireVersion(o, p.ResourceVersion)
			break
		}
		if err := r.checkAndDecrement(ctx, p, budget, dryrun.IsDryRun(requestedOptions.DryRun)); err != nil {
			if !dryrun.IsDryRun(requestedOptions.DryRun) {
				r.recordEviction(p, budget, err)
			}
			return nil, err
		}
	default:
		const message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not " +
			"support."
		if !dryrun.IsDryRun(requestedOptions.DryRun) {
			r.recordRefusal(p, budgets[0].Name, message)
		}
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message}, nil
	}
	err = r.addConditionAndDeletePod(ctx, p.Name, o)
	if errors.IsConflict(err) && pin && !hasVersion(requestedOptions) {
		// The Pod may have become ready since: the budget must be asked again.
		err = tooManyRequests(budget)
	}
	return nil, err
}

func (r *evictionREST) recordEviction(p *v1.Pod, budget string, err error) {
	if !errors.IsTooManyRequests(err) {
		return
	}
	message := err.Error()
	if status, ok := err.(errors.APIStatus); ok && status.Status().Details != nil &&
		len(status.Status().Details.Causes) > 0 {
		message = status.Status().Details.Causes[0].Message
	}
	r.recordRefusal(p, budget, message)
}

func (r *evictionREST) recordRefusal(p *v1.Pod, budget, message string) {
	if r.journal == nil {
		return
	}
	r.journal.Put(journal.Ref{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		journal.EvictionRefused{Budget: budget, Message: message})
}

// addConditionAndDeletePod marks the Pod as a disruption's target and deletes it.
func (r *evictionREST) addConditionAndDeletePod(ctx context.Context, name string, o *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(o.DryRun) {
		version, err := r.addDisruptionTarget(ctx, name, o)
		if err != nil {
			return err
		}
		if hasVersion(o) {
			// The mark was our own write: the precondition follows it.
			o = o.DeepCopy()
			requireVersion(o, version)
		}
	}
	_, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, o)
	return err
}

func (r *evictionREST) addDisruptionTarget(ctx context.Context, name string,
	o *metav1.DeleteOptions) (version string, err error) {
	updater, ok := r.status.(rest.Updater)
	if !ok {
		return "", fmt.Errorf("storage %T of pods/status cannot update", r.status)
	}
	latest := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		p, ok := old.(*v1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected object type %T in the store of pods", old)
		}
		return p.DeepCopy(), preconditions(p, o.Preconditions)
	}
	condition := func(_ context.Context, obj, _ runtime.Object) (runtime.Object, error) {
		p := obj.(*v1.Pod)
		setCondition(&p.Status, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI",
			Message: "Eviction API: evicting",
		}, metav1.Now())
		return p, nil
	}
	updated, _, err := updater.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, latest, condition),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return "", err
	}
	a, err := meta.Accessor(updated)
	if err != nil {
		return "", err
	}
	return a.GetResourceVersion(), nil
}

func preconditions(p *v1.Pod, pre *metav1.Preconditions) error {
	if pre == nil {
		return nil
	}
	pods := schema.GroupResource{Resource: "Pod"}
	if pre.UID != nil && *pre.UID != "" && *pre.UID != p.UID {
		return errors.NewConflict(pods, p.Name,
			fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might "+
				"have been deleted and then recreated", *pre.UID, p.UID))
	}
	if pre.ResourceVersion != nil && *pre.ResourceVersion != "" && *pre.ResourceVersion != p.ResourceVersion {
		return errors.NewConflict(pods, p.Name,
			fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record "+
				"(%s). The object might have been modified", *pre.ResourceVersion, p.ResourceVersion))
	}
	return nil
}

func hasVersion(o *metav1.DeleteOptions) bool {
	return o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
}

func requireVersion(o *metav1.DeleteOptions, version string) {
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &version
}

// canIgnorePDB says that evicting the Pod disrupts nothing: it has ended, never ran, or is being
// deleted already.
func canIgnorePDB(p *v1.Pod) bool {
	return pod.IsTerminal(p) || p.Status.Phase == v1.PodPending || p.DeletionTimestamp != nil
}

// evictionsRetry is upstream's patience with conflicting writers.
func evictionsRetry() wait.Backoff {
	return wait.Backoff{Steps: 20, Duration: evictionRetryInterval, Factor: 1.0, Jitter: 0.1}
}
