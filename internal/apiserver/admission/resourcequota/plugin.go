package resourcequota

import (
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	library "k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"github.com/gantry-project/gantry/internal/quota"
)

// evaluationWorkers is how many namespaces are evaluated at once.
const evaluationWorkers = 5

// plugin is the library's with our evaluators.
type plugin struct{ *library.QuotaAdmission }

// New makes the plugin ResourceQuota; config is a resourcequota.admission.k8s.io Configuration, nil
// for the default.
func New(config io.Reader) (admission.Interface, error) {
	c, err := library.LoadConfiguration(config)
	if err != nil {
		return nil, err
	}
	p, err := library.NewResourceQuota(c, evaluationWorkers)
	if err != nil {
		return nil, err
	}
	return &plugin{p}, nil
}

// SetDrainedNotification starts the evaluators, which end when stop is closed.
func (p *plugin) SetDrainedNotification(stop <-chan struct{}) {
	p.QuotaAdmission.SetDrainedNotification(stop)
	p.SetQuotaConfiguration(generic.NewConfiguration(quota.Evaluators(noLister, time.Now), ignoredResources()))
}

// ignoredResources are kinds no quota counts: Events, which are many, and what is never stored.
func ignoredResources() map[schema.GroupResource]struct{} {
	out := map[schema.GroupResource]struct{}{}
	for _, gr := range []schema.GroupResource{
		{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Resource: "bindings"},
		{Resource: "componentstatuses"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	} {
		out[gr] = struct{}{}
	}
	return out
}

// noLister is the lister of admission, which adds to sums and never counts anew.
func noLister(schema.GroupResource) generic.ListFuncByNamespace {
	return func(string) ([]runtime.Object, error) {
		return nil, errors.New("admission adds to a quota's sums and does not list objects")
	}
}
