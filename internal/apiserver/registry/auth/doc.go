// Package auth serves TokenReview, the SubjectAccessReviews, SelfSubjectRulesReview and
// SelfSubjectReview, which are answered and not stored.
//
// In: the authenticator, authorizer and rule resolver of the server. Out: create-only endpoints of
// authentication.k8s.io and authorization.k8s.io. To add a review: a type here and a line in
// Storages.
package auth
