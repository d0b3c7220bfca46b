package volumetest

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Objects stands in for the API server: ConfigMaps, Secrets, claims and volumes by namespace/name,
// and tokens without end.
type Objects struct {
	mu            sync.Mutex
	Configs       map[string]*v1.ConfigMap
	Secrets       map[string]*v1.Secret
	Claims        map[string]*v1.PersistentVolumeClaim
	Volumes       map[string]*v1.PersistentVolume
	Life          time.Duration // of tokens; one hour when 0
	Deny          error         // what a token request answers
	Tokens        int           // made so far
	TokenRequests []authenticationv1.TokenRequestSpec
	Registered    map[types.UID]bool
}

// NewObjects returns none.
func NewObjects() *Objects {
	return &Objects{
		Configs: map[string]*v1.ConfigMap{}, Secrets: map[string]*v1.Secret{},
		Claims: map[string]*v1.PersistentVolumeClaim{}, Volumes: map[string]*v1.PersistentVolume{},
		Registered: map[types.UID]bool{},
	}
}

// SetConfig puts a ConfigMap of one key, under ns/name.
func (o *Objects) SetConfig(name, key, value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Configs["ns/"+name] = &v1.ConfigMap{Data: map[string]string{key: value}}
}

// SetSecret puts a Secret of one key, under ns/name.
func (o *Objects) SetSecret(name, key, value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Secrets["ns/"+name] = &v1.Secret{Data: map[string][]byte{key: []byte(value)}}
}

func find[T any](o *Objects, m map[string]*T, kind, key string) (*T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := m[key]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, path.Base(key))
}

// GetConfigMap is volume.Objects.
func (o *Objects) GetConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return find(o, o.Configs, "configmap", namespace+"/"+name)
}

// GetSecret is volume.Objects.
func (o *Objects) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return find(o, o.Secrets, "secret", namespace+"/"+name)
}

// GetClaim is volume.Claims.
func (o *Objects) GetClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return find(o, o.Claims, "persistentvolumeclaims", namespace+"/"+name)
}

// GetVolume is volume.Claims.
func (o *Objects) GetVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return find(o, o.Volumes, "persistentvolumes", name)
}

// CreateToken is volume.Tokens: token-1, token-2, …
func (o *Objects) CreateToken(_ context.Context, _, _ string,
	r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Deny != nil {
		return nil, o.Deny
	}
	o.Tokens++
	o.TokenRequests = append(o.TokenRequests, r.Spec)
	life := o.Life
	if life == 0 {
		life = time.Hour
	}
	out := r.DeepCopy()
	seconds := int64(life / time.Second)
	out.Spec.ExpirationSeconds = &seconds
	out.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("token-%d", o.Tokens),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(life))}
	return out, nil
}

// RegisterPod is volumemanager.ObjectCache.
func (o *Objects) RegisterPod(pod *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Registered[pod.UID] = true
}

// UnregisterPod is volumemanager.ObjectCache.
func (o *Objects) UnregisterPod(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.Registered, uid)
}
