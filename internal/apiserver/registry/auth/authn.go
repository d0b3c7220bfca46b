package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func unexpected(obj runtime.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("not the object expected here: %T", obj))
}

// tokenReview answers whose a token is.
func (d Deps) tokenReview(ctx context.Context, in *authenticationv1.TokenReview,
	admit func() error) (runtime.Object, error) {
	if in.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	audiences := authenticator.Audiences(in.Spec.Audiences)
	if len(audiences) == 0 {
		audiences = d.Audiences
	}
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	// A request with nothing but the token in it, validated as one that came in.
	req := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + in.Spec.Token}}}).WithContext(ctx)
	resp, ok, err := d.Authenticator.AuthenticateRequest(req)
	out := in.DeepCopy()
	out.Status = authenticationv1.TokenReviewStatus{Authenticated: ok}
	if err != nil {
		out.Status.Error = err.Error()
	}
	if !ok || resp == nil {
		return out, nil
	}
	if len(audiences) > 0 && len(audiences.Intersect(resp.Audiences)) == 0 {
		return nil, apierrors.NewInternalError(errors.New("error validating audiences"))
	}
	out.Status.Audiences = resp.Audiences
	if resp.User != nil {
		out.Status.User = info(resp.User)
	}
	return out, nil
}

// selfSubjectReview answers who is asking.
func (d Deps) selfSubjectReview(ctx context.Context, _ *authenticationv1.SelfSubjectReview,
	admit func() error) (runtime.Object, error) {
	userInfo, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: info(userInfo)},
	}, nil
}

func info(userInfo user.Info) authenticationv1.UserInfo {
	var extra map[string]authenticationv1.ExtraValue
	for k, v := range userInfo.GetExtra() {
		if extra == nil {
			extra = map[string]authenticationv1.ExtraValue{}
		}
		extra[k] = v
	}
	return authenticationv1.UserInfo{Username: userInfo.GetName(), UID: userInfo.GetUID(), Groups: userInfo.GetGroups(),
		Extra: extra}
}
