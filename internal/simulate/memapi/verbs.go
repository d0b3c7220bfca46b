package memapi

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// notSupported is the answer of a storage that has not the verb.
func (c *call) notSupported(verb string) error {
	return apierrors.NewMethodNotSupported(schema.GroupResource{Group: c.APIGroup, Resource: c.Resource}, verb)
}

func (s *Server) list(c *call) (runtime.Object, error) {
	l, ok := c.storage.(rest.Lister)
	if !ok {
		return nil, c.notSupported("list")
	}
	o := &internalversion.ListOptions{LabelSelector: labels.Everything(), FieldSelector: fields.Everything()}
	var err error
	query := c.http.URL.Query()
	if q := query.Get("labelSelector"); q != "" {
		if o.LabelSelector, err = labels.Parse(q); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if q := query.Get("fieldSelector"); q != "" {
		if o.FieldSelector, err = fields.ParseSelector(q); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return l.List(c.ctx, o)
}

// attributes are what admission is told of a write.
func (s *Server) attributes(c *call, o, old runtime.Object, op admission.Operation) (admission.Attributes, error) {
	kind, err := s.kind(c)
	if err != nil {
		return nil, err
	}
	who, _ := request.UserFrom(c.ctx)
	return admission.NewAttributesRecord(o, old, kind, c.Namespace, c.Name, c.gv.WithResource(c.Resource),
		c.Subresource, op, optionsOf(op), false, who), nil
}

func optionsOf(op admission.Operation) runtime.Object {
	switch op {
	case admission.Update:
		return &metav1.UpdateOptions{}
	case admission.Delete:
		return &metav1.DeleteOptions{}
	}
	return &metav1.CreateOptions{}
}

func (s *Server) interfaces() admission.ObjectInterfaces {
	return admission.NewObjectInterfacesFromScheme(s.scheme.Scheme)
}

// admit lets the mutating plugins change o.
func (s *Server) admit(ctx context.Context, a admission.Attributes) error {
	if m, ok := s.admission.(admission.MutationInterface); ok && m.Handles(a.GetOperation()) {
		return m.Admit(ctx, a, s.interfaces())
	}
	return nil
}

func (s *Server) create(c *call) (runtime.Object, error) {
	kind, err := s.kind(c)
	if err != nil {
		return nil, err
	}
	o, err := s.decode(c.body, c.http.Header.Get("Content-Type"), kind, c.storage.New())
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if c.Namespace != "" && m.GetNamespace() == "" {
		m.SetNamespace(c.Namespace)
	}
	if c.Subresource == "" && m.GetName() == "" && m.GetGenerateName() != "" {
		m.SetName(s.names.generate(m.GetGenerateName()))
	}
	if c.Name == "" {
		c.Name = m.GetName()
	}
	a, err := s.attributes(c, o, nil, admission.Create)
	if err != nil {
		return nil, err
	}
	if err := s.admit(c.ctx, a); err != nil {
		return nil, err
	}
	options := &metav1.CreateOptions{DryRun: c.http.URL.Query()["dryRun"]}
	validate := rest.AdmissionToValidateObjectFunc(s.admission, a, s.interfaces())
	switch to := c.storage.(type) {
	case rest.NamedCreater:
		return to.Create(c.ctx, c.Name, o, validate, options)
	case rest.Creater:
		return to.Create(c.ctx, o, validate, options)
	}
	return nil, c.notSupported("create")
}

func (s *Server) update(c *call) (runtime.Object, error) {
	to, ok := c.storage.(rest.Updater)
	if !ok {
		return nil, c.notSupported(c.Verb)
	}
	kind, err := s.kind(c)
	if err != nil {
		return nil, err
	}
	var sent runtime.Object
	if c.Verb == "update" {
		if sent, err = s.decode(c.body, c.http.Header.Get("Content-Type"), kind, c.storage.New()); err != nil {
			return nil, err
		}
	}
	transform := func(ctx context.Context, o, old runtime.Object) (runtime.Object, error) {
		if c.Verb == "patch" {
			if o, err = s.patched(c, kind, old); err != nil {
				return nil, err
			}
		}
		a, err := s.attributes(c, o, old, admission.Update)
		if err != nil {
			return nil, err
		}
		return o, s.admit(ctx, a)
	}
	a, err := s.attributes(c, nil, nil, admission.Update)
	if err != nil {
		return nil, err
	}
	out, _, err := to.Update(c.ctx, c.Name, rest.DefaultUpdatedObjectInfo(sent, transform),
		rest.AdmissionToValidateObjectFunc(s.admission, a, s.interfaces()),
		rest.AdmissionToValidateObjectUpdateFunc(s.admission, a, s.interfaces()), false,
		&metav1.UpdateOptions{DryRun: c.http.URL.Query()["dryRun"]})
	return out, err
}

func (s *Server) remove(c *call) (runtime.Object, error) {
	d, ok := c.storage.(rest.GracefulDeleter)
	if !ok {
		return nil, c.notSupported("delete")
	}
	o := &metav1.DeleteOptions{}
	if len(c.body) > 0 {
		kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		media, _, _ := strings.Cut(c.http.Header.Get("Content-Type"), ";")
		info, ok := runtime.SerializerInfoForMediaType(s.scheme.Codecs.SupportedMediaTypes(), media)
		if !ok {
			return nil, apierrors.NewBadRequest("content type " + media + " is not supported")
		}
		if _, _, err := info.Serializer.Decode(c.body, &kind, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	a, err := s.attributes(c, nil, nil, admission.Delete)
	if err != nil {
		return nil, err
	}
	out, _, err := d.Delete(c.ctx, c.Name, rest.AdmissionToValidateObjectDeleteFunc(s.admission, a, s.interfaces()), o)
	return out, err
}
