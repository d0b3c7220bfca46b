package flowcontrol

import (
	"context"
	"errors"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apply "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	informers "k8s.io/client-go/informers/flowcontrol/v1"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	listers "k8s.io/client-go/listers/flowcontrol/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// statusFieldManager owns the conditions: upstream's name of what reads FlowSchemas.
const statusFieldManager = "api-priority-and-fairness-config-consumer-v1"

// danglingCondition returns the condition Dangling that a FlowSchema has when its
// PriorityLevelConfiguration exists or not. It is nil when the FlowSchema has it already.
func danglingCondition(s *flowcontrolv1.FlowSchema, exists bool, now metav1.Time) *flowcontrolv1.FlowSchemaCondition {
	want := flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling,
		Status: flowcontrolv1.ConditionFalse, Reason: "Found", LastTransitionTime: now}
	outcome := "and it exists"
	if !exists {
		want.Status, want.Reason, outcome = flowcontrolv1.ConditionTrue, "NotFound", "but there is no such object"
	}
	want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q %s",
		s.Spec.PriorityLevelConfiguration.Name, outcome)
	for _, have := range s.Status.Conditions {
		if have.Type == want.Type && have.Status == want.Status && have.Reason == want.Reason &&
			have.Message == want.Message {
			return nil
		}
	}
	return &want
}

// StatusController writes the condition Dangling of FlowSchemas. Where Priority and Fairness is on
// the library does that.
type StatusController struct {
	client  client.FlowSchemaInterface
	schemas listers.FlowSchemaLister
	levels  listers.PriorityLevelConfigurationLister
	synced  []cache.InformerSynced
	changed chan struct{} // holds one when something changed since the last pass
}

// NewStatusController returns a controller over informers that the caller starts.
func NewStatusController(c client.FlowcontrolV1Interface, i informers.Interface) (*StatusController, error) {
	s := &StatusController{client: c.FlowSchemas(), schemas: i.FlowSchemas().Lister(),
		levels: i.PriorityLevelConfigurations().Lister(), changed: make(chan struct{}, 1)}
	changed := func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	var errs []error
	for _, informer := range []cache.SharedIndexInformer{i.FlowSchemas().Informer(),
		i.PriorityLevelConfigurations().Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		})
		errs, s.synced = append(errs, err), append(s.synced, informer.HasSynced)
	}
	return s, errors.Join(errs...)
}

// Run writes conditions until ctx ends. What could not be written is tried again with the next
// change, and with the informers' resync.
func (s *StatusController) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		if err := s.writeConditions(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The condition Dangling of flow schemas could not be written")
		}
	}
}

func (s *StatusController) writeConditions(ctx context.Context) error {
	all, err := s.schemas.List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, schema := range all {
		_, err := s.levels.Get(schema.Spec.PriorityLevelConfiguration.Name)
		c := danglingCondition(schema, err == nil, metav1.Now())
		if c == nil {
			continue
		}
		_, err = s.client.ApplyStatus(ctx, apply.FlowSchema(schema.Name).WithStatus(apply.FlowSchemaStatus().
			WithConditions(apply.FlowSchemaCondition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
				WithMessage(c.Message).WithLastTransitionTime(c.LastTransitionTime))),
			metav1.ApplyOptions{FieldManager: statusFieldManager, Force: true})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("flow schema %s: %w", schema.Name, err))
		}
	}
	return errors.Join(errs...)
}
