package dramanager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
)

var (
	claimKind     = resourceapi.SchemeGroupVersion.WithKind("ResourceClaim")
	protobufMagic = []byte("k8s\x00") // begins objects in protobuf
)

const statusSubresource = "status"

// updateClaim replaces a claim, or its status, and returns it as the API server answers. What
// Writer does not send the ordinary client writes: the claim's resource version keeps a write that
// was made after all from being made twice.
func (m *Manager) updateClaim(ctx context.Context, c *resourceapi.ResourceClaim,
	subresource string) (*resourceapi.ResourceClaim, error) {
	is, err := m.updateClaimWithWriter(ctx, c, subresource)
	if !errors.Is(err, apiwriter.ErrNotSent) && !errors.Is(err, apiwriter.ErrLost) {
		return is, err
	}
	client := m.client.ResourceV1().ResourceClaims(c.Namespace)
	if subresource == statusSubresource {
		return client.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	}
	return client.Update(ctx, c, metav1.UpdateOptions{})
}

// updateClaimWithWriter writes with Writer; apiwriter.ErrNotSent when the ordinary client must.
func (m *Manager) updateClaimWithWriter(ctx context.Context, c *resourceapi.ResourceClaim,
	subresource string) (*resourceapi.ResourceClaim, error) {
	if m.Writer == nil {
		return nil, apiwriter.ErrNotSent
	}
	body, err := apiwriter.Encode(claimKind, c)
	if err != nil {
		return nil, err
	}
	path := "/apis/resource.k8s.io/v1/namespaces/" + url.PathEscape(c.Namespace) + "/resourceclaims/" + url.PathEscape(
		c.Name)
	if subresource != "" {
		path += "/" + subresource
	}
	a, err := m.Writer.Do(ctx, apiwriter.Request{Method: http.MethodPut, Path: path, Body: body})
	if err != nil {
		return nil, err
	}
	if a.RetryDelay() > 0 { // the ordinary client knows how often to try again, and how patiently
		return nil, apiwriter.ErrNotSent
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	var whole runtime.Unknown
	raw, ok := bytes.CutPrefix(a.Body, protobufMagic)
	if !ok {
		return nil, fmt.Errorf("claim %s: the API server's answer is not protobuf", keyOf(c))
	}
	is := &resourceapi.ResourceClaim{}
	if err = whole.Unmarshal(raw); err == nil {
		err = is.Unmarshal(whole.Raw)
	}
	if err != nil {
		return nil, fmt.Errorf("claim %s: the API server's answer: %w", keyOf(c), err)
	}
	is.ManagedFields = nil
	return is, nil
}
