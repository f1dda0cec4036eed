// The speed limit of a symmetric fused RBF product in float32: hand-written AVX-512, same arithmetic as a good Numba loop.
// Build and run: g++ -O3 -march=native -ffast-math -fopenmp avx512_rbf.cpp -o avx512_rbf && ./avx512_rbf [n] [threads]
// Prints G kernel entries/s (n^2 / time). Needs an AVX-512 CPU; it is a yardstick for benchmarks, not part of the product.
#include <immintrin.h>
#include <cmath>
#include <vector>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <omp.h>
#include <algorithm>
using namespace std;
static inline __m512 exp512(__m512 x){
  x=_mm512_max_ps(x,_mm512_set1_ps(-87.f));
  __m512 z=_mm512_mul_ps(x,_mm512_set1_ps(1.4426950408889634f));
  __m512 k=_mm512_roundscale_ps(z,0); __m512 f=_mm512_sub_ps(z,k);
  __m512 p=_mm512_set1_ps(1.535336188319500e-4f);
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(1.339887440266574e-3f));
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(9.618437357674640e-3f));
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(5.550332471162809e-2f));
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(2.402264791363012e-1f));
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(6.931472028550421e-1f));
  p=_mm512_fmadd_ps(p,f,_mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p,k);
}
const int TJ=256;
template<int D,int R,int C> void mvs(const float*XT,const float*h,const float*V/*C x n*/,float*out,int n){
  int nt=omp_get_max_threads(); vector<vector<float>> loc(nt,vector<float>((size_t)n*C,0.f));
  #pragma omp parallel
  {
  float*lo=loc[omp_get_thread_num()].data();
  #pragma omp for schedule(dynamic,1)
  for(int J=0;J<n/TJ;J++){ int j0=J*TJ;
    alignas(64) float m[C*TJ]; for(auto&x:m)x=0;
    for(int i0=0;i0<j0+TJ;i0+=R){
      __m512 acc[R][C]; for(int r=0;r<R;r++)for(int c=0;c<C;c++)acc[r][c]=_mm512_setzero_ps();
      bool diag=i0>=j0;
      for(int jj=0;jj<TJ;jj+=16){ int j=j0+jj;
        __m512 s[R]; __m512 hj=_mm512_loadu_ps(h+j); for(int r=0;r<R;r++) s[r]=_mm512_add_ps(hj,_mm512_set1_ps(h[i0+r]));
        for(int k=0;k<D;k++){ __m512 xj=_mm512_loadu_ps(XT+(size_t)k*n+j); for(int r=0;r<R;r++) s[r]=_mm512_fmadd_ps(_mm512_set1_ps(XT[(size_t)k*n+i0+r]),xj,s[r]);}
        for(int r=0;r<R;r++) s[r]=exp512(s[r]);
        for(int c=0;c<C;c++){ __m512 vj=_mm512_loadu_ps(V+(size_t)c*n+j); __m512 mm=_mm512_load_ps(m+c*TJ+jj);
          for(int r=0;r<R;r++){acc[r][c]=_mm512_fmadd_ps(s[r],vj,acc[r][c]); if(!diag)mm=_mm512_fmadd_ps(s[r],_mm512_set1_ps(V[(size_t)c*n+i0+r]),mm);}
          _mm512_store_ps(m+c*TJ+jj,mm);}
      }
      for(int r=0;r<R;r++)for(int c=0;c<C;c++) lo[(size_t)c*n+i0+r]+=_mm512_reduce_add_ps(acc[r][c]);
    }
    for(int c=0;c<C;c++)for(int jj=0;jj<TJ;jj++)lo[(size_t)c*n+j0+jj]+=m[c*TJ+jj];
  }
  }
  for(size_t i=0;i<(size_t)n*C;i++){float s=0;for(int t=0;t<nt;t++)s+=loc[t][i];out[i]=s;}
}
template<class F> double bench(F f){f();double b=1e9;for(int i=0;i<4;i++){auto t=chrono::steady_clock::now();f();b=min(b,chrono::duration<double>(chrono::steady_clock::now()-t).count());}return b;}
template<int D,int R,int C> void go(int n){ mt19937 g(0); normal_distribution<float> N; vector<float> XT(n*D),h(n),v((size_t)n*C),o((size_t)n*C);
 for(auto&x:XT)x=N(g); for(auto&x:v)x=N(g); for(int i=0;i<n;i++){float s=0;for(int k=0;k<D;k++)s+=XT[k*n+i]*XT[k*n+i];h[i]=-.5f*s;}
 double s=bench([&]{mvs<D,R,C>(XT.data(),h.data(),v.data(),o.data(),n);});printf("D %d R %d C %d  %.3fs %.2f Gpair/s %.1f rhs\n",D,R,C,s,1.0*n*n/s/1e9,C*1.0*n*n/s/1e9);}
int main(int argc,char**argv){ omp_set_num_threads(argc>2?atoi(argv[2]):2); int n=argc>1?atoi(argv[1]):20480; /* a multiple of 256 */
 go<9,8,1>(n); go<9,2,8>(n); go<9,4,8>(n);}
