// Package controllers shows every controller of control.All at work through the API of a test
// cluster, one row each.
//
// A row makes objects in several namespaces at once, its instances. In each of them something else
// befalls the controller's writes: nothing; another client changes the object first; the first
// tries are refused (403, 409, 500, 503, 504); the answer is lost; the controller is killed after
// the write and started anew. What the API holds at the end must be the same in all of them.
//
// In: the tables of rows_*_test.go. Out: a test report. To add a controller: a row;
// TestEveryControllerHasARow fails without.
package controllers
