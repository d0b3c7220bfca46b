package podactions

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// environment is an ordered set of variables: what the Pod says wins over what Services add.
type environment struct {
	names    []string
	values   map[string]string
	services map[string]string
}

func (e *environment) set(name, value string) {
	if _, had := e.values[name]; !had {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// lookup is what $(NAME) means.
func (e *environment) lookup() func(string) (string, bool) {
	return func(name string) (string, bool) {
		if v, ok := e.values[name]; ok {
			return v, true
		}
		v, ok := e.services[name]
		return v, ok
	}
}

// list is the environment as CRI takes it: the Pod's variables in order, then the Services' by
// name.
func (e *environment) list() []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, 0, len(e.values)+len(e.services))
	for _, n := range e.names {
		out = append(out, &runtimeapi.KeyValue{Key: n, Value: []byte(e.values[n])})
	}
	rest := make([]string, 0, len(e.services))
	for n := range e.services {
		if _, had := e.values[n]; !had {
			rest = append(rest, n)
		}
	}
	sort.Strings(rest)
	for _, n := range rest {
		out = append(out, &runtimeapi.KeyValue{Key: n, Value: []byte(e.services[n])})
	}
	return out
}

// env builds a container's environment: Services, envFrom, env, each over the one before.
func (c *operation) env(ctx context.Context, m podplan.Member) (*environment, error) {
	services, err := c.serviceEnv()
	if err != nil {
		return nil, err
	}
	e := &environment{values: map[string]string{}, services: services}
	for _, from := range m.EnvFrom {
		if err := c.envFrom(ctx, e, from); err != nil {
			return nil, err
		}
	}
	for _, v := range m.Env {
		if v.ValueFrom == nil {
			e.set(v.Name, expand(v.Value, e.lookup()))
			continue
		}
		value, ok, err := c.envValue(ctx, m, v.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			e.set(v.Name, value)
		}
	}
	return e, nil
}

func (c *operation) envFrom(ctx context.Context, e *environment, from v1.EnvFromSource) error {
	data, err := map[string]string{}, error(nil)
	switch {
	case from.ConfigMapRef != nil:
		var cm *v1.ConfigMap
		cm, err = c.executor.d.Volumes.Objects().GetConfigMap(ctx, c.pod.Namespace, from.ConfigMapRef.Name)
		if isOptionalMissing(err, from.ConfigMapRef.Optional) {
			return nil
		}
		if err == nil {
			data = cm.Data
		}
	case from.SecretRef != nil:
		var s *v1.Secret
		s, err = c.executor.d.Volumes.Objects().GetSecret(ctx, c.pod.Namespace, from.SecretRef.Name)
		if isOptionalMissing(err, from.SecretRef.Optional) {
			return nil
		}
		if err == nil {
			for k, v := range s.Data {
				data[k] = string(v)
			}
		}
	}
	if err != nil {
		return err
	}
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		e.set(from.Prefix+k, data[k])
	}
	return nil
}

// isOptionalMissing tells whether an optional object is not there.
func isOptionalMissing(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && deref(optional)
}

// envValue resolves one valueFrom; ok is false when something optional is not there.
func (c *operation) envValue(ctx context.Context, m podplan.Member,
	s *v1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case s.FieldRef != nil:
		value, err = c.podField(s.FieldRef.FieldPath)
	case s.ResourceFieldRef != nil:
		value, err = c.resourceField(m, s.ResourceFieldRef)
	case s.ConfigMapKeyRef != nil:
		return c.configMapKey(ctx, s.ConfigMapKeyRef)
	case s.SecretKeyRef != nil:
		return c.secretKey(ctx, s.SecretKeyRef)
	case s.FileKeyRef != nil:
		return c.fileKey(s.FileKeyRef)
	}
	return value, true, err
}

func (c *operation) configMapKey(ctx context.Context, r *v1.ConfigMapKeySelector) (string, bool, error) {
	cm, err := c.executor.d.Volumes.Objects().GetConfigMap(ctx, c.pod.Namespace, r.Name)
	if err != nil {
		if isOptionalMissing(err, r.Optional) {
			err = nil
		}
		return "", false, err
	}
	v, ok := cm.Data[r.Key]
	if !ok && !deref(r.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", r.Key, c.pod.Namespace, r.Name)
	}
	return v, ok, nil
}

func (c *operation) secretKey(ctx context.Context, r *v1.SecretKeySelector) (string, bool, error) {
	s, err := c.executor.d.Volumes.Objects().GetSecret(ctx, c.pod.Namespace, r.Name)
	if err != nil {
		if isOptionalMissing(err, r.Optional) {
			err = nil
		}
		return "", false, err
	}
	v, ok := s.Data[r.Key]
	if !ok && !deref(r.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", r.Key, c.pod.Namespace, r.Name)
	}
	return string(v), ok, nil
}
