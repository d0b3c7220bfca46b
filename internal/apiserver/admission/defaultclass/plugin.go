// Package defaultclass is what the admission plugins DefaultStorageClass and DefaultIngressClass
// share: a new object that names no class gets the one that an annotation marks as the default.
//
// In: a Rule (which objects, which classes, which annotations). Out: an admission plugin. To add
// one: a package beside defaultstorageclass with a Rule, and a line in admission.Plugins.
package defaultclass

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/defaultclass"
)

// Lister lists classes, as the listers of client-go do.
type Lister[C any] interface {
	List(labels.Selector) ([]C, error)
}

// Rule says which objects get a default class, and from which classes.
type Rule[C metav1.Object] struct {
	// NoInformer is the error of a plugin that was not given informers.
	NoInformer string
	// Classes returns the lister and the informer of the classes.
	Classes func(informers.SharedInformerFactory) (Lister[C], cache.SharedIndexInformer)
	// ClassName returns the field that names the class of an object being created; nil for objects
	// of other kinds and for those that name their class already.
	ClassName func(runtime.Object) **string
	// Annotations mark a class as the default.
	Annotations []string
}

// Plugin is a mutating admission plugin that sets the class of new objects that name none.
type Plugin[C metav1.Object] struct {
	*admission.Handler
	rule    Rule[C]
	classes Lister[C]
}

// NewPlugin returns the plugin of a rule. Like upstream's it leaves objects as they are when no
// class is the default, and forbids them while the informer has not synced.
func NewPlugin[C metav1.Object](r Rule[C]) *Plugin[C] {
	return &Plugin[C]{Handler: admission.NewHandler(admission.Create), rule: r}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin[C]) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	lister, informer := p.rule.Classes(f)
	p.classes = lister
	p.SetReadyFunc(informer.HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin[C]) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New(p.rule.NoInformer)
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin[C]) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	field := p.rule.ClassName(a.GetObject())
	if field == nil {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	list, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if c, ok := defaultclass.Newest(list, p.rule.Annotations...); ok {
		name := c.GetName()
		*field = &name
	}
	return nil
}
